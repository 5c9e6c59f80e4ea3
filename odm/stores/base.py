"""What both stores share: settings, the connection, and the steps of each call before its colour matters."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from inspect import iscoroutinefunction
from random import Random, SystemRandom
from threading import TIMEOUT_MAX, Lock
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from attrs import evolve, frozen

from odm.entities.entity import Entity
from odm.entities.patterns import BoundPattern
from odm.entities.query import Finding, Query
from odm.errors import BadCursor, BadValue
from odm.expressions.build import checked
from odm.expressions.nodes import Action, Condition
from odm.observe.events import LOG, Hook, Observer
from odm.observe.meter import OPEN, Meter, metering, open_meters
from odm.planner.key_conditions import owner_of
from odm.planner.plan import make_plan
from odm.procedures import cursor as cursors
from odm.procedures import raw
from odm.procedures import read as reads
from odm.procedures import update as updates
from odm.procedures import write as writes
from odm.procedures.companion_writes import concerned
from odm.procedures.context import Context
from odm.procedures.explain import Explanation, explain_plan, explain_write
from odm.procedures.raw import RawItem
from odm.procedures.read import Reading, Scanning, Segment
from odm.procedures.reshard import reshard
from odm.procedures.write_intent import WriteIntent
from odm.protocol import requests as req
from odm.protocol.connection import DEFAULT_POLICY, Backend, Connection, CoreGen, RetryPolicy
from odm.protocol.limits import PORTABLE
from odm.protocol.run import Watch
from odm.schema.checks import NAMES, check_companions, is_name
from odm.schema.model import Schema, Target
from odm.schema.table import Table

if TYPE_CHECKING:
    from typing import Literal

E = TypeVar("E", bound=Entity)
T_co = TypeVar("T_co", covariant=True)


@frozen
class Page(Generic[T_co]):
    """One page of results.

    Attributes:
        items: the results, as many as asked for while there are as many.
        cursor: pass it as ``after=`` to go on; None exactly when nothing follows.
    """

    items: Sequence[T_co]
    cursor: str | None = None


class BaseStore:
    """Settings and steps of `Store` and `AsyncStore`."""

    def __init__(  # noqa: PLR0913  # the options of a store
        self,
        table: Table,
        backend: Backend,
        *,
        prefix: str = "",
        cursor_secret: bytes | str | None = None,
        limits: "Literal['portable', 'native']" = "portable",
        on_unknown: "Literal['raise', 'skip']" = "raise",
        on_request: Hook | None = None,
        clock: Callable[[], float] | None = None,
        random: Random | None = None,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> None:
        wrong = f"{table!r} is no Table" if not isinstance(table, Table) else ""
        if not isinstance(backend, Backend):
            wrong = wrong or f"{backend!r} is no backend"
        if wrong:
            name = type(self).__name__
            raise TypeError(f"{name}(table, backend): {wrong}; write {name}(table, Memory()), or DynamoDB(...), ...")
        _check_options(table, prefix, limits, on_unknown, {"on_request": on_request, "clock": clock}, random)
        _check_secret(cursor_secret)
        self.table = table
        self.backend = backend
        self.prefix = prefix
        self._settings: dict[str, Any] = {
            "clock": clock or backend.clock,
            "limits": backend.limits if limits == "native" else PORTABLE,
            "random": random or SystemRandom(),
            "skip_unknown": on_unknown == "skip",
        }
        self._retry_policy = _retry_policy(timeout, retries)
        self._retry_safe = False
        self._on_request = on_request
        self._secret = cursor_secret.encode() if isinstance(cursor_secret, str) else cursor_secret
        self._lock = Lock()
        self._open: tuple[Schema, tuple[Context, Connection[Any]]] | None = None
        self._origin: Self | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.table!r}, {self.backend!r})"

    def with_options(
        self, *, timeout: float | None = None, retries: int | None = None, retry_safe: bool | None = None
    ) -> Self:
        """This store with other options, for some of its calls: ``db.with_options(timeout=0.5).get(...)``.

        It shares all else with this one, connections included: closing one closes both. Each pair of values has
        connections of its own within, so use few different ones.

        Args:
            timeout: as for the store itself; None: as it is in this one.
            retries: likewise.
            retry_safe: True: an update may be sent again when its answer was lost, and is done once all the same: for
                an increment that must count exactly. On DynamoDB such an update is a transaction, at twice the write
                units; it goes with ``returning="none"`` only. Bigtable can not do that: Unsupported. None: as it is in
                this store.

        Raises:
            BadValue: a value makes no sense.
        """
        if retry_safe not in (None, True, False):
            raise BadValue(f"retry_safe={retry_safe!r}: say True or False")
        now = self._retry_policy
        twin = copy(self)
        twin._retry_policy = _retry_policy(
            now.timeout if timeout is None else timeout, now.retries if retries is None else retries
        )
        twin._retry_safe = self._retry_safe if retry_safe is None else retry_safe
        twin._origin = self._origin or self
        twin._open = None
        return twin

    def _connect(self) -> tuple[Context, Connection[Any]]:
        """The compiled schema and the connection for it; anew when entities have joined the table since."""
        if self._origin is not None:
            context, connection = self._origin._connect()
            return context, self._with_policy(connection)
        schema = self.table.compile()
        opened = self._open
        if opened is None or opened[0] is not schema:
            with self._lock:
                opened = self._open
                if opened is None or opened[0] is not schema:
                    named = (
                        evolve(schema, name=self.prefix + schema.name, prefix=self.prefix) if self.prefix else schema
                    )
                    connection = self._with_policy(self.backend.connect(named))
                    context = Context(
                        named,
                        **self._settings,
                        encode=connection.encode,
                        transaction_unsupported_reason=connection.transaction_unsupported_reason,
                    )
                    if not context.transactions:
                        check_companions(named, transactions=False)
                    opened = (schema, (context, connection))
                    self._open = opened
        return opened[1]

    def _with_policy(self, connection: Connection[Any]) -> Connection[Any]:
        """The connection with the retry policy of this store."""
        policy = self._retry_policy
        return connection if policy == DEFAULT_POLICY else connection.with_retry_policy(policy)

    def _channel(self) -> tuple[Connection[Any], Watch | None]:
        """What requests go through: the connection, and who watches them, if anybody does."""
        context, connection = self._connect()
        if self._on_request is None and not OPEN.get() and not LOG.isEnabledFor(logging.DEBUG):
            return connection, None
        meters = open_meters(self._origin or self)
        measured = self._on_request is not None or bool(meters)
        if measured:
            connection = connection.metered()
        return connection, Observer(context.schema.name, connection, self._on_request, meters, measured=measured)

    def meter(self) -> AbstractContextManager[Meter]:
        """Count what this store sends inside of a block: ``with db.meter() as meter: ...``, then ``print(meter)``.

        Counted is what is called in the block's thread or task, and in tasks that are started in it; not in threads
        that it starts. Meters may be nested: each counts all that happens in its block. While one is open, DynamoDB is
        asked for the capacity that each request consumes, and the bundled engine works it out, which takes it time.
        """
        return metering(self._origin or self)

    def _disconnect(self) -> Connection[Any] | None:
        """Take the open connection out of the store, for one caller to close it."""
        if self._origin is not None:
            return self._origin._disconnect()
        with self._lock:
            opened, self._open = self._open, None
        return None if opened is None else opened[1][1]

    @property
    def _context(self) -> Context:
        return self._connect()[0]

    def _key(self, which: Any, key: dict[str, Any]) -> Any:
        """The item of ``get(Order, order_id=...)``, or what was passed, where it is a key already."""
        if isinstance(which, type):
            entity = self._context.schema.entity(which)
            values = entity.call_values(entity.primary.name, key)
            whole = len(values) == len(entity.primary.fields)
            return Target(entity, entity.key(values), values) if whole else Query(which, entity.primary.name, values)
        if key and isinstance(which, Query | Entity):
            raise BadValue(f"key fields ({', '.join(key)}) go with an entity class; {which!r} is a whole key already")
        if key:
            raise BadValue(f"{which!r} is no entity class: give the class itself, as in get(Order, order_id=...)")
        return which

    def _query(self, query: object) -> Query[Any]:
        if isinstance(query, Query):
            return query
        if isinstance(query, Finding):
            query.refuse("query")
        if isinstance(query, BoundPattern):
            raise BadValue(f"{query!r} is a pattern: call it with values to make a query")
        entity = self._context.schema.by_class.get(query) if isinstance(query, type) else None
        if entity is None:
            raise BadValue(f"{query!r} is not a query: call a pattern, such as Order.by_date(...), or select(Order)")
        raise BadValue(
            f"{entity.name} is an entity class, not a query: call a pattern, as in {entity.key_call}, write "
            f"select({entity.name}).where(...), or read all with scan({entity.name})"
        )

    def _begin(self, query: Query[Any], *, consistent: bool = True, after: str | None = None) -> Reading | None:
        query = self._query(query)
        if after is not None and (not isinstance(after, str) or not after):
            raise BadCursor(f"{after!r} is no cursor: pass None for the first page, then page.cursor")
        context = self._context
        reading = reads.begin(context, query, consistent=consistent)
        if after is None or reading is None:
            return reading
        return cursors.decode_cursor(context.schema, reading, after, self._secret)

    def _begin_scan(
        self,
        entity: type | None,
        conditions: Sequence[object],
        *,
        consistent: bool,
        segments: int | None,
        segment: tuple[int, int] | None,
    ) -> Scanning:
        if isinstance(entity, Condition):
            name = getattr(owner_of(entity), "__name__", "Order")
            raise BadValue(f"scan() takes the entity first: scan({name}, {entity})")
        if entity is not None and not isinstance(entity, type):
            raise BadValue(f"scan() takes an entity class, not {entity!r}")
        wanted = [checked(condition, "scan()") for condition in conditions]
        return reads.begin_scan(
            self._context, entity, wanted, consistent=consistent, segments=segments, segment=segment
        )

    def _page(self, reading: Reading | None, size: int) -> CoreGen[Page[Any]]:
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise BadValue(f"page(size={size!r}): give the number of items a page, an int of 1 or more")
        if reading is None:
            return Page([])
        context = self._context
        items, further = yield from reads.page(context, reading, size)
        return Page(items, None if further is None else cursors.encode_cursor(context.schema, further, self._secret))

    def _segment(self, after: object) -> Segment:
        """Where a scan goes on: at a cursor, or at the beginning."""
        if after is None:
            return Segment()
        if not isinstance(after, str) or not after:
            raise BadCursor(f"{after!r} is no cursor: pass None, one of parts(), or the cursor of the page before")
        return cursors.decode_segment(self._context.schema, self.backend.name, after, self._secret)

    def _place(self, segment: Segment) -> str:
        return cursors.encode_segment(self._context.schema, self.backend.name, segment, self._secret)

    def _parts(self, parts: int) -> CoreGen[list[str]]:
        found = yield from raw.cut(parts)
        return [self._place(segment) for segment in found]

    def _scan_page(self, after: object, size: int, *, expired: bool, consistent: bool) -> CoreGen[Page[RawItem]]:
        segment = self._segment(after)
        items, further = yield from raw.scan_page(self._context, segment, size, expired=expired, consistent=consistent)
        return Page(items, None if further is None else self._place(evolve(segment, after=further)))

    def key_of(self, entity: Entity) -> tuple[str, str]:
        """The key under which an entity is stored: partition and sort, as text; "" where there is no sort.

        Raises:
            KeyValueError: a field of it is None or can not stand in a key.
        """
        return self._context.schema.target(entity).key

    def _reshard(self, query: Query[Any]) -> CoreGen[int]:
        return reshard(self._context, self._query(query))

    def _exists(self, which: Any, key: dict[str, Any]) -> CoreGen[bool]:
        return reads.exists(self._context, self._key(which, key))

    def explain(
        self,
        what: Query[Any] | Entity,
        *actions: Action,
        write: "Literal['put', 'insert', 'delete'] | None" = None,
        when: Condition | bool | None = None,
    ) -> Explanation:
        """What a call would do, without doing it: pattern, index, partitions and range, filter, requests.

        ``explain(query)`` explains a read, ``explain(entity)`` its put, ``explain(entity_or_key, set_(...))`` an
        update, ``explain(entity_or_key, write="delete")`` a delete.

        Args:
            what: a query, an entity, or a key.
            actions: those of the update to explain.
            write: which write to explain.
            when: the condition of that write.

        Returns:
            A value that prints; its ``native`` is the first request as the backend would send it.
        """
        context, connection = self._connect()
        if isinstance(what, Query) and not actions and write is None:
            plan = make_plan(context.schema, what)
            reading = reads.begin(context, what)
            native = None
            if reading is not None:
                (native,) = connection.rehearse(reads.first_request(context, reading)).sent
            return explain_plan(plan, native, connection)
        target = context.schema.target(what)
        name = "update" if actions else write or "put"
        steps = self._write_steps(name, what, actions, when)
        change = updates.understand(context, what, actions, when, "none") if actions else None
        companions = concerned(WriteIntent(name, change or writes.Write(target, req.Delete(target.key))))
        return explain_write(
            f"{name} {target}",
            steps,
            connection,
            target.entity,
            change,
            companions=companions,
            in_transaction=context.transactions,
        )

    def _write_steps(
        self, name: str, what: Any, actions: Sequence[Action], when: Condition | bool | None
    ) -> CoreGen[Any]:
        context = self._context
        if name == "update":
            return updates.update(context, what, actions, when, "none")
        if name == "delete":
            return writes.delete(context, what, when)
        if name == "insert":
            return writes.insert(context, what)
        if name == "put":
            return writes.put(context, what, when)
        raise BadValue(f"write={name!r}: say 'put', 'insert' or 'delete'")


def _check_options(
    table: Table, prefix: object, limits: str, on_unknown: str, callables: Mapping[str, object], random: object
) -> None:
    """Refuse options that can not be used. Raises BadValue."""
    if not isinstance(prefix, str) or (prefix and not is_name(prefix + table.name)):
        raise BadValue(f"prefix={prefix!r}: the name of a table with its prefix has {NAMES}")
    if limits not in ("portable", "native"):
        raise BadValue(f"limits={limits!r}: say 'portable', what every backend can hold, or 'native'")
    if on_unknown not in ("raise", "skip"):
        raise BadValue(f"on_unknown={on_unknown!r}: say 'raise' or 'skip'")
    for name, given in callables.items():
        if given is not None and (not callable(given) or iscoroutinefunction(given)):
            raise BadValue(f"{name}={given!r}: give a plain function, also to an AsyncStore")
    if random is not None and not isinstance(random, Random):
        raise BadValue(f"random={random!r}: give a random.Random, such as random.Random(7)")


def _retry_policy(timeout: float | None, retries: int | None) -> RetryPolicy:
    """Refuse numbers that make no sense. Raises BadValue."""
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout <= TIMEOUT_MAX
    if timeout is not None and not number:
        raise BadValue(
            f"timeout={timeout!r}: give the seconds to wait for an answer, more than 0, at most {TIMEOUT_MAX:g}"
        )
    count = isinstance(retries, int) and not isinstance(retries, bool) and retries >= 0
    if retries is not None and not count:
        raise BadValue(f"retries={retries!r}: give how often a request is sent again, an int of 0 or more")
    return RetryPolicy(timeout, retries)


def _check_secret(secret: object) -> None:
    """Refuse a secret that signs nothing, and do not show it. Raises BadValue."""
    if secret is not None and (not isinstance(secret, str | bytes) or not secret):
        raise BadValue(
            "cursor_secret= is text or bytes, and not empty: with an empty one, anybody can sign; leave it out for "
            "cursors that are not signed"
        )
