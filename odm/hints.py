"""What to write in place of a name that other libraries have: ``order.save()``, ``Order.objects``, ``query.filter()``.

Each table maps names to what to write, where ``{0}`` is the name of the class or the pattern. `Hinted` uses one for an
attribute that does not exist, and `options_of` for an argument; for any other name, the error is Python's own.
"""

import dis
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeVar

C = TypeVar("C", bound=type[Any])


def _table(lines: Mapping[str, str]) -> dict[str, str]:
    return {name: text for names, text in lines.items() for name in names.split()}


_READ: Final = (
    "write db.query({0}.by_...(...)) with a pattern, db.query(select({0}).where(...)), or db.scan({0}) for all"
)
_GET: Final = "write db.get({0}, ...) with the fields of its key by name"
_AGAIN: Final = f"{_GET}; it returns a new object"
_PUT: Final = "write db.put(entity), or db.insert(entity) if it must be new"
_BATCH: Final = "write with db.batch() as batch: batch.put(entity)"
_TOGETHER: Final = "write with db.transaction() as tx: tx.put(entity)"
_MANY: Final = "write db.get_many([{0}.primary(...), ...])"
_BLOCK_ENDS: Final = "leave it out, all is sent when the block ends"

ENTITY: Final = _table(
    {
        "save persist": "write db.save(entity) if you read it from db, or db.put(entity)",
        "put upsert create insert add": _PUT,
        "objects query filter filter_by where all find find_all select scan list match": _READ,
        "get get_or_none get_by_id find_one first one fetch load": _GET,
        "refresh reload refresh_from_db": _AGAIN,
        "get_or_create": f"{_GET}, and if it is None, db.insert(entity), which raises ItemExists if another was faster",
        "update patch modify": "write db.update(entity, set_({0}.field, value))",
        "delete remove destroy": "write db.delete(entity)",
        "exists count": "write db.exists({0}, ...) or db.count(query)",
        "batch_get": _MANY,
        "batch_write bulk_create": _BATCH,
        "create_table delete_table": "write db.create() or db.drop()",
    }
)
"""Of an entity or its class, which does not know a store."""

PATTERN: Final = _table(
    {
        "query where filter reverse limit all first count get scan": "call the pattern with values, which makes a "
        "query, as in db.query(Order.by_date(customer_id=...))",
    }
)
"""Of a pattern, such as ``Order.by_date``."""

_ORDER: Final = (
    "write query.reverse() for the opposite of the order of the sort key; another order needs an AccessPattern with "
    "such a sort key"
)

QUERY: Final = _table(
    {
        "filter filter_by and_ having": "write query.where({0}.field > value)",
        "all fetch fetch_all run execute exec go to_list results items": "write list(db.query(query)), or loop over it",
        "first one one_or_none get scalar": "write db.first(query)",
        "count": "write db.count(query)",
        "exists": "write db.first(query) is not None",
        "order_by sort sort_by asc desc": _ORDER,
        "page paginate": "write db.page(query, size=25, after=cursor)",
        "offset skip start_after": "write db.page(query, after=page.cursor), which does not read the items before",
        "only values_list attributes project": "write db.query(query, only=[{0}.field])",
        "begins begins_with between gt gte lt lte eq": "write query.where({0}.field >= value), with between(...) or "
        "starts_with(...) too",
        "consistent consistent_read": "write db.query(query, consistent=False); True is the default",
        "delete remove": "write db.delete_all(query)",
        "update": "loop over db.query(query), with db.update(entity, set_({0}.field, value))",
    }
)

PAGE: Final = _table(
    {
        "next next_page next_cursor next_token last_evaluated_key LastEvaluatedKey": "write page.cursor",
        "has_next has_more has_next_page": "write page.cursor is not None",
        "prev previous_page previous_cursor prev_cursor": "write page.previous",
        "has_previous has_prev": "write page.previous is not None",
        "results data records rows Items": "write page.items",
        "total count": "write db.count(query)",
    }
)

STORE: Final = _table(
    {
        "add put_item upsert": _PUT,
        "get_item find_one fetch load get_or_none": _GET,
        "find filter filter_by where select all list match": _READ,
        "update_item patch modify": "write db.update(entity_or_key, set_({0}.field, value))",
        "delete_item remove": "write db.delete(entity_or_key)",
        "batch_get batch_get_item get_batch": _MANY,
        "batch_write batch_write_item batch_put put_many put_all insert_many save_all add_all bulk_create": _BATCH,
        "transact transact_write transact_write_items begin session": _TOGETHER,
        "commit flush": "leave it out, each call is sent at once; for several together, with db.transaction() as tx:",
        "rollback": "raise an exception in the block of with db.transaction() as tx:, which discards it",
        "create_table create_tables create_all": "write db.create()",
        "drop_table delete_table drop_all": "write db.drop()",
        "paginate": "write db.page(query, size=25, after=cursor)",
        "refresh": _AGAIN,
    }
)

BATCH: Final = _table(
    {
        "save add put_item append upsert": "write batch.put(entity)",
        "insert": "a batch has no conditions: write batch.put(entity), which replaces an item with its key, or "
        "db.insert(entity), or tx.insert(entity) in a transaction",
        "update": "a batch has no conditions: write db.update(...), tx.update(...) in a transaction, or for parts of "
        "items that may not exist batch.merge(key, set_({0}.field, value))",
        "get": _MANY,
        "remove delete_item": "write batch.delete(entity_or_key)",
        "commit flush execute write": _BLOCK_ENDS,
    }
)

TRANSACTION: Final = _table(
    {
        "add put_item": "write tx.put(entity)",
        "get get_item get_many one query page": "write db.get(...) before the block; the transaction depends on what "
        "you read by tx.check(key, when=...), by when= of a write, or by a Revision",
        "merge upsert": "write tx.update(key, set_({0}.field, value), upsert=True)",
        "remove delete_item": "write tx.delete(entity_or_key)",
        "condition_check require": "write tx.check(key, when=...)",
        "commit flush execute": _BLOCK_ENDS,
        "rollback abort cancel": "raise an exception in the block, which discards it",
    }
)


RESULTS: Final = _table(
    {
        "all to_list list fetchall fetch_all items": "they are read while you loop: write list(db.query(query))",
        "first one one_or_none get scalar scalars": "write db.first(query)",
        "count total_count length total": "write db.count(query)",
        "exists": "write db.first(query) is not None",
        "filter filter_by where order_by sort limit reverse": "a condition, an order and a limit belong to the query, "
        "before it is read: db.query(query.where(...).reverse().limit(10))",
        "page paginate last_evaluated_key LastEvaluatedKey cursor next_page": "write db.page(query, size=25), which "
        "has a cursor",
        "delete": "write db.delete_all(query)",
        "update": "loop over them, with db.update(entity, set_(...))",
    }
)
"""Of what ``db.query(...)`` and ``db.scan(...)`` return."""

_BY_BACKEND: Final = "it is a setting of the backend: write {0}(table, DynamoDB(...)) with it"

STORE_OPTIONS: Final = _table(
    {
        "region region_name aws_region": "it is a setting of the backend: write {0}(table, DynamoDB(region=...))",
        "endpoint endpoint_url host": "it is a setting of the backend: write {0}(table, DynamoDB(endpoint_url=...))",
        "profile profile_name session boto3_session config billing stream": _BY_BACKEND,
        "aws_access_key_id aws_secret_access_key aws_session_token": _BY_BACKEND,
        "project project_id instance instance_id": "write {0}(table, Bigtable(project, instance))",
        "path filename file": "write {0}(table, LocalFile(path))",
        "table_name": "write name=..., or Table(...) with that name",
        "url uri dsn connection_string": "write {0}(table, backend), with a backend such as DynamoDB(...) or Memory()",
        "max_retries attempts": "write retries=...",
        "connect_timeout read_timeout": "write timeout=...",
    }
)
"""Of arguments of a store."""

_SESSION: Final = (
    "write DynamoDB(boto3.Session(aws_access_key_id=..., ...)), or leave it out: boto3 finds credentials in the "
    "environment, a profile or a role"
)

DYNAMODB_OPTIONS: Final = _table(
    {
        "region_name aws_region": "write region=...",
        "profile_name aws_profile": "write profile=...",
        "endpoint host hostname url endpoint_uri": "write endpoint_url=...",
        "aws_access_key_id aws_secret_access_key aws_session_token aws_account_id botocore_session": _SESSION,
        "credentials": _SESSION,
        "boto3_session boto_session aws_session client resource": "write DynamoDB(session), with a boto3.Session",
        "table_name table name": "the name is that of the Table: write Table('shop'), or Store(..., name=...)",
        "max_retries retries max_attempts timeout": "write Store(..., retries=3, timeout=0.5), or "
        "config=botocore.config.Config(...)",
        "connect_timeout read_timeout max_pool_connections proxies botocore_config": "write "
        "config=botocore.config.Config(...)",
        "verify": "write the environment variable AWS_CA_BUNDLE, or ca_bundle in the AWS configuration",
        "use_ssl": "write endpoint_url='http://...' for a service without TLS",
        "service_name api_version": "leave it out",
        "billing_mode read_capacity_units write_capacity_units provisioned_throughput read_capacity write_capacity": ""
        "write billing=Provisioned(read=5, write=5), or leave it out for on-demand",
        "stream_view_type stream_specification streams": "write stream='new_and_old_images'",
    }
)
"""Of arguments of ``DynamoDB(...)``: the names of boto3 and PynamoDB."""

BIGTABLE_OPTIONS: Final = _table(
    {
        "project_id": "write project=...",
        "instance_id instance_name": "write instance=...",
        "app_profile_id": "write app_profile=...",
        "emulator_host host emulator api_endpoint": "write endpoint='localhost:8086'",
        "credentials_path service_account_file": "write credentials=..., an object of google.auth, or set the "
        "environment variable GOOGLE_APPLICATION_CREDENTIALS",
        "table_id table table_name": "the name is that of the Table: write Table('shop'), or Store(..., name=...)",
        "admin read_only client client_options channel": "leave it out",
        "timeout retries": "write Store(..., retries=3, timeout=0.5)",
    }
)
"""Of arguments of ``Bigtable(...)``: the names of Google's client."""

TABLE_OPTIONS: Final = _table(
    {
        "table_name": "write the name first: Table('shop')",
        "hash_key range_key partition_key sort_key primary_key pk sk key_schema": "the keys of an entity are templates "
        "in its class: primary = PrimaryKey('CUSTOMER#{{customer_id}}', 'ORDER#{{order_id}}'); "
        "Table(keys=('pk', 'sk')) names the attributes that hold them",
        "indexes global_secondary_indexes gsis gsi": "an index is an AccessPattern in the class of an entity",
        "region region_name endpoint endpoint_url host billing billing_mode stream": "it is a setting of the backend: "
        "write Store(table, DynamoDB(...)) with it",
        "read_capacity_units write_capacity_units": "write Store(table, DynamoDB(billing=Provisioned(...)))",
        "prefix": "write Store(table, backend, prefix=...)",
        "metadata schema columns": "leave it out: an entity joins with class Order(Entity, table=table)",
    }
)
"""Of arguments of ``Table(...)``."""

KEY_OPTIONS: Final = _table(
    {
        "hash_key partition_key pk hash": "write the template of the partition key first: "
        "{0}('CUSTOMER#{{customer_id}}', ...)",
        "range_key sort_key sk range": "write the template of the sort key second: {0}(..., 'ORDER#{{order_id}}')",
        "index_name gsi": "write index=...",
        "lsi": "write local=True",
        "condition where filter": "write when=field('status') == 'open'",
        "include projected projection_type": "write projection=...",
        "unique": "write unique_email = Unique('email'), of odm.patterns.unique",
    }
)
"""Of arguments of ``PrimaryKey(...)`` and ``AccessPattern(...)``."""


def options_of(hints: Mapping[str, str], required: Mapping[str, str] | None = None) -> Callable[[C], C]:
    """Decorates a class whose ``__init__`` says what to write in place of some arguments that it does not have.

    Args:
        hints: by the name of the argument.
        required: what to say if a positional argument is missing, by its name, in their order.
    """

    def decorate(cls: C) -> C:
        make, names = cls.__init__, required or {}

        @wraps(make)
        def init(self: Any, *args: Any, **options: Any) -> None:
            owner = type(self).__name__
            for name in options:
                if (known := hint(hints, name, owner)) is not None:
                    raise TypeError(f"{owner} has no option {name!r}: {known}")
            for position, (name, text) in enumerate(names.items()):
                if position >= len(args) and name not in options:
                    raise TypeError(text.format(owner))
            make(self, *args, **options)

        cls.__init__ = init
        return cls

    return decorate


IN_ASYNC: Final = CO_COROUTINE | CO_ASYNC_GENERATOR
"""The flags of the code of an ``async def``; see `refuse_waiting`."""
_AWAITS: Final = {"GET_AWAITABLE": "await", "GET_AITER": "async for"}


@lru_cache(maxsize=1024)  # reading bytecode is slow, and a program makes the same calls again
def _waits(code: CodeType, at: int) -> str:
    """The keyword that is applied to the result of the call at a position of ``async def`` code; "" for none."""
    following = (instruction.opname for instruction in dis.get_instructions(code) if instruction.offset > at)
    return _AWAITS.get(next(following, ""), "")


def refuse_waiting(says: Mapping[str, str]) -> None:
    """Refuse a call whose result is awaited, or looped over by ``async for``, if it cannot be.

    A result that is an entity, a bool or None has no place for a hint, and ``await`` of it fails after the call was
    made. So the code of the caller is read, if it is that of an ``async def``. It is the caller of the public method
    that calls the function which calls this one.

    Args:
        says: the message for "await" and for "async for", those that are refused.

    Raises:
        TypeError: the caller awaits the result.
    """
    caller = sys._getframe(2).f_back
    if caller is not None and caller.f_code.co_flags & IN_ASYNC:
        word = _waits(caller.f_code, caller.f_lasti)
        if word in says:
            raise TypeError(says[word])


def hint(table: Mapping[str, str], name: str, owner: str = "Order") -> str | None:
    """What to write in place of a name; None: nothing is known of it."""
    text = table.get(name)
    return None if text is None else text.format(owner)


class Sync:
    """Says so to ``async with``."""

    __slots__ = ()

    if not TYPE_CHECKING:

        async def __aenter__(self) -> Any:
            raise TypeError(f"a {type(self).__name__} is not async: write with, or open an AsyncStore for async with")

        async def __aexit__(self, *error: object) -> None: ...


class Async:
    """Says so to a ``with`` without ``async``."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __enter__(self) -> Any:
            raise TypeError(f"an {type(self).__name__} is async: write async with, or open a Store for with")

        def __exit__(self, *error: object) -> None: ...


SYNC_IN_ASYNC: Final = {
    word: f"a Store is not async, so its calls take no {word}: {way}, or open an AsyncStore"
    for word, way in (("await", "leave it out"), ("async for", "write for"))
}
"""Of calls of a `odm.Store`; see `refuse_waiting`."""

RESULTS_AWAITED: Final = {
    "await": "the results of an AsyncStore are read while you loop over them, so there is nothing to await: write "
    "async for, or [x async for x in db.query(...)]"
}
"""Of the results of an `odm.AsyncStore`."""


def refuse_use(says: str) -> Callable[..., NoReturn]:
    """A method that a thing does not have: it raises TypeError, and says what to write."""

    def use(self: object, *args: object) -> NoReturn:
        raise TypeError(says)

    return use


class Hinted:
    """Says what to write in place of some attributes that do not exist. Costs nothing for those that do."""

    __slots__ = ()

    _odm_hints: ClassVar[Mapping[str, str]]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            known = hint(type(self)._odm_hints, name)
            if known is None:
                return object.__getattribute__(self, name)  # raises the error as without this method
            raise AttributeError(f"{type(self).__name__} has no {name!r}: {known}", name=name, obj=self)
