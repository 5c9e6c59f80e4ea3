"""`BaseStore`: the settings and the connection, shared by `Store` and `AsyncStore`."""

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import partial
from inspect import iscoroutinefunction
from os import PathLike
from pathlib import Path
from random import Random, SystemRandom
from threading import TIMEOUT_MAX, Lock
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import odm
from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BackendError, BadValue, brief
from odm.expressions.nodes import Action, Condition
from odm.hints import IN_ASYNC, STORE, STORE_OPTIONS, SYNC_IN_ASYNC, Hinted, options_of, refuse_waiting
from odm.immutable import Immutable, evolve
from odm.observe.events import LOG, Hook, Observer
from odm.observe.meter import OPEN, Meter, metering, open_meters
from odm.procedures.calls import Calls, CurrentCalls
from odm.procedures.context import Context
from odm.procedures.ids import ids_for
from odm.procedures.session import Session
from odm.procedures.writing.automatic import assigned, new_id
from odm.procedures.writing.transaction import Operations
from odm.protocol.connection import DEFAULT_POLICY, Backend, Connection, RetryPolicy
from odm.protocol.limits import PORTABLE
from odm.protocol.on_invalid import OnInvalid, skipping
from odm.protocol.turns import Turns
from odm.schema.checks import NAMES, check_companions, is_name
from odm.schema.model import Schema
from odm.schema.table import Table

if TYPE_CHECKING:
    from odm.schema.lockfile import TableLock

E = TypeVar("E", bound=Entity)


class _Opened(Immutable):
    """Opened by the first call of a store, and used until the store is closed or entities join the table.

    A store from `with_options` opens one on top of its origin's, and opens it again when the origin's is replaced. Two
    threads may both do this: it costs time, but is correct.

    Attributes:
        schema: the compiled schema of the table.
        session, calls: those of the store.
        send: answers a request without reporting it.
        origin: for a store from `with_options`, what its origin had open.
    """

    schema: Schema
    session: Session
    calls: Calls
    send: Callable[[Any], Any]
    origin: "_Opened | None" = None


@options_of(
    STORE_OPTIONS,
    {
        "table": "{0}(table, backend): the table is missing; write {0}(table, Memory()), or DynamoDB(...), ...",
        "backend": "{0}(table, backend): the backend is missing; write {0}(table, Memory()), or DynamoDB(...), ...",
    },
)
class BaseStore(Hinted):
    """The settings and connection of `Store` and `AsyncStore`, which differ only in how they perform requests."""

    _odm_hints = STORE
    _perform: ClassVar[Callable[..., Any]]
    """Answers a request on a connection: `perform` or `aperform`."""
    _sync: ClassVar[bool]

    _retry_safe: bool = False

    def __init__(  # noqa: PLR0913  # the options of a store
        self,
        table: Table,
        backend: Backend,
        *,
        prefix: str = "",
        name: str | None = None,
        cursor_secret: bytes | str | None = None,
        limits: Literal["portable", "native"] = "portable",
        on_unknown: Literal["raise", "skip"] = "raise",
        on_invalid: OnInvalid = "raise",
        on_request: Hook | None = None,
        clock: Callable[[], float] | None = None,
        random: Random | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        blobs: "odm.Blobs | str | PathLike[str] | None" = None,
        lock: "str | PathLike[str] | None" = None,
    ) -> None:
        wrong = f"{brief(table)} is not a Table" if not isinstance(table, Table) else ""
        if not isinstance(backend, Backend):
            wrong = wrong or f"{brief(backend)} is not a backend"
        if wrong:
            name = type(self).__name__
            raise TypeError(f"{name}(table, backend): {wrong}; write {name}(table, Memory()), or DynamoDB(...), ...")
        _check_options(table, prefix, name, limits, on_unknown, {"on_request": on_request, "clock": clock}, random)
        self._secret = _secret_of(cursor_secret)
        self.table, self.backend = table, backend
        self.prefix, self.name = prefix, prefix + (table.name if name is None else name)
        self._settings: dict[str, Any] = {
            "clock": clock or backend.clock,
            "limits": backend.limits if limits == "native" else PORTABLE,
            "random": random or SystemRandom(),
            "skip_unknown": on_unknown == "skip",
            "on_invalid": skipping(on_invalid),
            "ids": ids_for(clock or backend.clock),
        }
        self._retry_policy = _retry_policy(timeout, retries)
        self._on_request, self._blobs = on_request, _blobs_of(blobs)
        self._locked = None if lock is None else _locked(lock, table)
        self._lock = Lock()
        self._opened: _Opened | None = None
        self._origin: Self | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.table!r}, {self.backend!r})"

    def with_options(
        self, *, timeout: float | None = None, retries: int | None = None, retry_safe: bool | None = None
    ) -> Self:
        """A copy of this store with other options, for some calls: ``db.with_options(timeout=0.5).get(...)``.

        It shares everything else with this store, also the connections: closing one closes both. On DynamoDB
        each timeout has its own pool of connections, so use few different ones.

        Args:
            timeout: as for the store, in seconds; None: the value of this store.
            retries: as for the store; None: the value of this store.
            retry_safe: True: an update whose answer was lost may be retried and is still applied only once, for exact
                increments. On DynamoDB such an update is a transaction, which costs twice the write units of the
                table and only allows ``returning="none"``. On Bigtable it needs ``Table(transactions=True)``;
                otherwise Unsupported. None: the value of this store.

        Raises:
            BadValue: a value is not allowed.
        """
        if retry_safe is not None and not isinstance(retry_safe, bool):
            raise BadValue(f"retry_safe={brief(retry_safe)}: say True or False")
        now = self._retry_policy
        twin = copy(self)
        twin._retry_policy = _retry_policy(
            now.timeout if timeout is None else timeout, now.retries if retries is None else retries
        )
        twin._retry_safe = self._retry_safe if retry_safe is None else retry_safe
        twin._origin = self._origin or self
        twin._opened = None
        return twin

    @property
    def _session(self) -> Session:
        """The compiled schema with its connection; compiled again when entities have joined the table."""
        return self._current().session

    def _call(self) -> tuple[Calls, Callable[[Any], Any]]:
        """The calls of the store, and the function that answers (and reports) their requests."""
        if self._sync:
            caller = sys._getframe(1).f_back
            if caller is not None and caller.f_code.co_flags & IN_ASYNC:
                refuse_waiting(SYNC_IN_ASYNC)
        opened = self._current()
        if self._on_request is None and not OPEN.get() and not LOG.isEnabledFor(logging.DEBUG):
            return opened.calls, opened.send
        connection, watch = self._watched(opened.session)
        return opened.calls, partial(self._perform, connection, watch=watch)

    def _current_calls(self) -> CurrentCalls:
        """The calls for procedures, transactions and batches, during which entities may join the table."""
        return CurrentCalls(lambda: self._session)

    def _watched(self, session: Session) -> tuple[Connection[Any], Observer]:
        """The connection, metered if a hook or meter needs it, and its observer."""
        meters = open_meters(self._origin or self)
        measured = self._on_request is not None or bool(meters)
        connection = session.connection.metered() if measured else session.connection
        name = session.context.schema.name
        return connection, Observer(name, connection, self._on_request, meters, measured=measured)

    def _current(self) -> "_Opened":
        opened, origin = self._opened, self._origin
        valid = opened is not None and opened.schema is self.table.newest
        if opened is not None and valid and (origin is None or opened.origin is origin._opened):
            return opened
        return self._open() if origin is None else self._open_twin(origin)

    def _open(self) -> "_Opened":
        schema = self.table.compile()
        with self._lock:
            self._check_open()
            opened = self._opened
            if opened is None or opened.schema is not schema:  # another thread may have been faster
                own = self.name == schema.name
                named = schema if own else evolve(schema, name=self.name, prefix=self.prefix)
                connection = self._with_policy(self.backend.connect(named))
                context = Context(
                    named,
                    **self._settings,
                    encode=connection.encode,
                    item_of=connection.item_of,
                    transaction_unsupported_reason=connection.transaction_unsupported_reason,
                    adds_values=connection.adds_values,
                    turns=connection.turns or Turns(),
                    merge_unsupported_reason=connection.merge_unsupported_reason,
                    merges_together=connection.merges_together,
                    samples=connection.samples,
                    range_unsupported_reason=connection.range_unsupported_reason,
                    blobs=None if self._blobs is None else self._blobs.folder(self.name),
                    unfilled=self._unfilled(schema),
                )
                if any(entity.blobs for entity in named.entities.values()):
                    from odm.procedures.blobs import Binder

                    context = evolve(context, bind=Binder(context, connection))
                if not context.transactions:
                    check_companions(named, transactions=False)
                session = Session(context, connection, self.backend.name, self._secret, self._retry_safe)
                opened = self._opened = self._opening(schema, session)
        return opened

    def _unfilled(self, schema: Schema) -> dict[str, str] | None:
        """See `Context.unfilled`."""
        if self._locked is None:
            return None
        from odm.schema.lockfile import describe, unfilled  # few programs need it, and it takes time to import

        return unfilled(self._locked, describe(schema), by_fields=self.backend.name == "dynamodb")

    def _open_twin(self, origin: Self) -> "_Opened":
        """For a store from `with_options`: the connection of its origin, with its own retry policy."""
        first = origin._current()
        connection = self._with_policy(first.session.connection)
        session = evolve(first.session, connection=connection, retry_safe=self._retry_safe)
        opened = self._opened = self._opening(first.schema, session, first)
        return opened

    def _opening(self, schema: Schema, session: Session, origin: "_Opened | None" = None) -> "_Opened":
        return _Opened(schema, session, Calls(session), partial(self._perform, session.connection), origin)

    def _with_policy(self, connection: Connection[Any]) -> Connection[Any]:
        """The connection with the retry policy of this store."""
        policy = self._retry_policy
        return connection if policy == DEFAULT_POLICY else connection.with_retry_policy(policy)

    def meter(self) -> AbstractContextManager[Meter]:
        """Count the requests of this store inside a block: ``with db.meter() as meter: ...``, then ``print(meter)``.

        It counts calls in the block's thread or task and in tasks started in the block, not in threads started there.
        Meters may be nested: each counts everything in its block. While one is open, requests to DynamoDB ask for the
        consumed capacity (``ReturnConsumedCapacity``), and the bundled engine computes it, which takes time.
        """
        return metering(self._origin or self)

    def _disconnect(self) -> Connection[Any] | None:
        """Close the store for further calls; returns its connection, so that only one caller closes it."""
        if self._origin is not None:
            return self._origin._disconnect()
        with self._lock:
            self._closed = True
            opened, self._opened = self._opened, None
        return None if opened is None else opened.session.connection

    def _check_open(self) -> None:
        """Raise BackendError if the store was closed."""
        if (self._origin or self)._closed:
            raise BackendError(f"the store of table {self.name!r} was closed: open another store")

    def key_of(self, entity: Entity) -> tuple[str, str]:
        """The key of an entity: partition key and sort key, as text; "" if it has no sort key.

        Raises:
            KeyValueError: a key field is None or has a value that cannot be in a key.
        """
        return self._session.context.schema.target(entity).key

    def new_id(self, entity: type[Entity]) -> Any:
        """A new id for an entity of this class; sends nothing.

        For what is built before the entity is stored, such as its children: ``ticket_id = db.new_id(Ticket)``, then
        ``Ticket(ticket_id=ticket_id, ...)``.

        Returns:
            A str, or a UUID if that is the type of the field with `odm.Id`.

        Raises:
            BadValue: the class has no field with `odm.Id`.
        """
        return new_id(self._session.context, entity)

    def assigned(self, entity: E) -> E:
        """The entity with the Id and CreatedAt that a put would assign; sends nothing.

        For writes that are repeated: the same entity, put twice, is then one item.

        Returns:
            A copy; the same object if it has no automatic field, or a value in each.
        """
        context = self._session.context
        return assigned(context, context.schema.entity(type(entity)), entity, written=False)

    def start(self, query: Query[Any], *, end: bool = False) -> str | None:
        """The cursor at which a query begins: `page` with it reads the same as without. None: no key can match.

        For patterns that read several tables with one cursor.

        Args:
            query: the query.
            end: the cursor that goes back from the end of the query instead: `page` with it reads the last page.

        Raises:
            BadValue: a value, condition or field does not fit the model, or a query with ``end`` has a limit.
        """
        return self._session.start(query, end=end)

    def seal(self, value: Any) -> str:
        """A value as an opaque text, with a checksum, or signed with ``cursor_secret``: for cursors of a pattern.

        Args:
            value: what JSON can hold. A client can read it.
        """
        from odm.procedures.reading.cursor import sealed

        return sealed(["sealed", value], self._secret)

    def unseal(self, text: str) -> Any:
        """The value of a text from `seal`.

        Raises:
            BadCursor: the text is damaged, or another program made it.
        """
        from odm.procedures.reading.cursor import unsealed

        return unsealed(text, self._secret)

    def raw_item(self, entity: Entity) -> "odm.results.RawItem":
        """The item that a batch would put for an entity, for `odm.Store.put_raw`; sends nothing.

        No Id, CreatedAt or UpdatedAt is assigned. The item is equal to what `odm.Store.scan_page` returns once it is
        stored, on every backend.

        Raises:
            BadValue: the entity cannot be stored, or has a Revision, companions or former values (CellVersions), which
                a batch cannot write.
        """
        from odm.procedures.raw import raw_item

        return raw_item(self._session.context, entity)

    def explain(
        self,
        what: Query[Any] | Entity | Operations,
        *actions: Action,
        write: Literal["put", "insert", "save", "merge", "delete"] | None = None,
        when: Condition | bool | None = None,
        only: Sequence[object] | None = None,
    ) -> "odm.results.Explanation":
        """What a call would do, without sending it: pattern, index, key range, filter with its cost, requests.

        ``explain(query)`` explains a read, ``explain(entity)`` its put, ``explain(entity_or_key, set_(...))`` an
        update, with ``write="merge"`` a merge, ``explain(entity_or_key, write="delete")`` a delete,
        ``explain(entity, write="save")`` the update of what has changed in an entity that was read, and ``explain(tx)``
        in the block of a transaction the operations so far.

        Args:
            what: a query, an entity, a key, or a transaction.
            actions: the actions of the update or merge to explain.
            write: which write to explain.
            when: the condition of that write.
            only: the fields that a query reads, as in `odm.Store.query`.

        Returns:
            The explanation, to print; its ``native`` is the first request that the backend would send.
        """
        from odm.procedures.explain import explain

        return explain(self._session, what, actions, write, when, only)


def _check_options(  # the options of a store
    table: Table,
    prefix: object,
    name: object,
    limits: str,
    on_unknown: str,
    callables: Mapping[str, object],
    random: object,
) -> None:
    """Raise BadValue for options that cannot be used."""
    if name is not None and not (isinstance(name, str) and is_name(name)):
        raise BadValue(f"name={brief(name)}: the name of a table has {NAMES}")
    if not isinstance(prefix, str) or (prefix and not is_name(prefix + (table.name if name is None else str(name)))):
        raise BadValue(f"prefix={brief(prefix)}: the name of a table with its prefix has {NAMES}")
    if limits not in ("portable", "native"):
        raise BadValue(f"limits={brief(limits)}: say 'portable', what every backend can hold, or 'native'")
    if on_unknown not in ("raise", "skip"):
        raise BadValue(f"on_unknown={brief(on_unknown)}: say 'raise' or 'skip'")
    for option, callback in callables.items():
        if callback is not None and (not callable(callback) or iscoroutinefunction(callback)):
            raise BadValue(f"{option}={brief(callback)}: give a plain function, also to an AsyncStore")
    if random is not None and not isinstance(random, Random):
        raise BadValue(f"random={brief(random)}: give a random.Random, such as random.Random(7)")


def _retry_policy(timeout: float | None, retries: int | None) -> RetryPolicy:
    """The policy for these options; raises BadValue for values that are not allowed."""
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout <= TIMEOUT_MAX
    if timeout is not None and not number:
        raise BadValue(
            f"timeout={brief(timeout)}: give the seconds to wait for an answer, more than 0, at most {TIMEOUT_MAX:g}"
        )
    count = isinstance(retries, int) and not isinstance(retries, bool) and retries >= 0
    if retries is not None and not count:
        raise BadValue(f"retries={brief(retries)}: give the number of retries, an int of 0 or more")
    return RetryPolicy(timeout, retries)


def _blobs_of(blobs: object) -> "odm.Blobs | None":
    if blobs is None:
        return None
    from odm.stores.blobs import Blobs

    return Blobs.of(blobs)


def _locked(lock: "str | PathLike[str]", table: Table) -> "TableLock":
    """The description of a table in a lock file.

    Raises:
        BadValue: there is no such file, it is not a lock file, or the table is not in it.
    """
    if not isinstance(lock, str | PathLike):
        raise BadValue(f"lock={brief(lock)}: give the path of the file that odm lock writes, such as 'odm.lock'")
    from odm.schema.lockfile import lock_at

    document = lock_at(Path(lock), "lock=")
    locked = None if document is None else document.tables.get(table.name)
    if locked is None:
        reason = "there is no such file" if document is None else f"table {table.name!r} is not in it"
        raise BadValue(f"lock={str(lock)!r}: {reason}; write it with odm lock, or leave lock= out")
    return locked


def _secret_of(secret: object) -> bytes | None:
    """The bytes of a secret; raises BadValue for an empty one or one of a wrong type, in a message without it."""
    if secret is not None and (not isinstance(secret, str | bytes) or not secret):
        raise BadValue(
            "cursor_secret= must be str or bytes, and not empty: with an empty secret, anybody can sign a cursor; "
            "leave it out for unsigned cursors"
        )
    if not isinstance(secret, str):
        return secret
    try:
        return secret.encode()
    except UnicodeEncodeError:  # of which the message has the secret, so it is not the cause either
        raise BadValue(
            "cursor_secret= has a lone surrogate, which UTF-8 cannot encode: pass bytes, as of secrets.token_bytes(32)"
        ) from None


def text_of_name(beginning: object) -> str:
    """The argument of ``list_tables``. Raises BadValue if it is not text."""
    if not isinstance(beginning, str):
        raise BadValue(f"list_tables({brief(beginning)}): give the text with which the names begin")
    return beginning
