"""Batches of unconditional puts, deletes and merges, sent in few requests. The last operation on a key wins.

DynamoDB's batches have no conditions. To protect items of other programs, odm first reads the tags of the items under
the keys of puts and deletes, unless the table is ``exclusive``. It does not detect an item that another program writes
between this read and the batch. Merges are sent without a read: see `odm.procedures.writing.merge`.

Several requests are sent at the same time, and what they did not apply is reported together.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Never, TypeAlias, TypeVar, cast

from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue, OdmError, OutcomeUnknown, Throttled, brief
from odm.expressions.nodes import Action
from odm.hints import BATCH, Hinted
from odm.procedures.blobs import check_own, new_values, plain, upload
from odm.procedures.concurrent import concurrent
from odm.procedures.context import Context
from odm.procedures.keep import trim_after
from odm.procedures.writing.merge import Given, Merging, merge_write, merged_put
from odm.procedures.writing.write import delete_request, put_request
from odm.protocol import requests as req
from odm.protocol.blobs import BlobFolder
from odm.protocol.connection import CoreGen
from odm.schema.entity import EntitySchema, Key, Target

WINDOW: Final = 64
"""The most merges that are sent at the same time to a backend that takes them one by one."""

Failure: TypeAlias = tuple[OdmError, tuple[Key, ...]]
"""An error, and the keys of the operations that are not known to be applied because of it."""


def send_all(
    context: Context,
    writes: Sequence[req.BatchWrite],
    merges: Sequence[Sequence[req.Merge]],
    targets: Mapping[Key, Target],
    arguments: Mapping[Key, Sequence[Any]],
) -> CoreGen[None]:
    """Send all operations of a batch; an error of one request does not keep others from being sent.

    Args:
        context: the context of the store.
        writes: the requests with puts and deletes, to be sent at the same time.
        merges: the merges, in parts to be sent at the same time.
        targets: the item of each key.
        arguments: the caller's arguments for each key.

    Raises:
        OdmError: the only error, or the first `OutcomeUnknown`, or the first one that is not `Throttled`; ``left`` has
            all operations that are not known to be applied, as the caller gave them.
    """
    requests: list[req.Request] = [*writes]
    if context.merges_together:
        requests += [req.BatchMerge(tuple(part)) for part in merges]
    failures = [
        failure for outcome in (yield from _outcomes(requests)) for failure in _failures(context, targets, *outcome)
    ]
    alone = [] if context.merges_together else [merge for part in merges for merge in part]
    for start in range(0, len(alone), WINDOW):
        some = yield from _outcomes(alone[start : start + WINDOW])
        failures += [failure for answered in some for failure in _failures(context, targets, *answered)]
    if failures:
        raise _joined(failures, arguments)


def _outcomes(requests: Sequence[req.Request]) -> CoreGen[Iterable[tuple[req.Request, Any]]]:
    """Each request with its answer, or with `req.Failed`."""
    if not requests:
        return ()
    if len(requests) > 1:
        return zip(requests, (yield req.Gather(tuple(requests), keep=True)), strict=True)
    try:
        return ((requests[0], (yield requests[0])),)
    except OdmError as error:
        return ((requests[0], req.Failed(error)),)


def _failures(context: Context, targets: Mapping[Key, Target], request: req.Request, answer: Any) -> Iterator[Failure]:
    """The failures of a request, from its answer."""
    if isinstance(request, req.BatchMerge) and not isinstance(answer, req.Failed):
        for merge, outcome in zip(request.operations, answer, strict=True):
            yield from _failures(context, targets, merge, outcome)
    elif isinstance(request, req.Merge) and isinstance(answer, req.Refused):
        stranger = context.stranger(targets[request.key], answer.item)
        assert stranger is not None  # it is the only reason to refuse a merge
        yield stranger, ()
    elif isinstance(answer, req.Failed):
        if not isinstance(answer.error, OdmError):
            raise answer.error
        yield answer.error, _keys(request, answer.error)


def _keys(request: req.Request, error: OdmError) -> tuple[Key, ...]:
    """The keys of the operations that are not known to be applied."""
    if isinstance(request, req.Merge):
        return (request.key,)
    assert isinstance(request, req.BatchWrite | req.BatchMerge)
    known = error.left or isinstance(error, Throttled)  # of an error without it, everything may be left
    return tuple(operation.key for operation in (error.left if known else request.operations))


def _joined(failures: Sequence[Failure], arguments: Mapping[Key, Sequence[Any]]) -> OdmError:
    """The error that the caller gets for these: one after which some of ``left`` may be applied goes first."""
    unprocessed = tuple(argument for _, keys in failures for key in keys for argument in arguments.get(key, ()))
    unknown = (error for error, _ in failures if isinstance(error, OutcomeUnknown))
    first = next((error for error, _ in failures if not isinstance(error, Throttled)), None)
    first = next(unknown, first)
    if first is None:
        first = failures[0][0]
        if len(failures) > 1:
            more = Throttled(f"{len(failures)} requests of a batch were throttled; one of them: {first}")
            more.__cause__ = first
            first = more
    first.left = unprocessed
    return first


E = TypeVar("E", bound=Entity)
T = TypeVar("T")

FLUSH_AT: Final = 1000
"""The number of collected puts and deletes at which a batch is sent before its block ends, for each request."""

MERGE_AT: Final = 10_000
"""The same for the actions of merges."""

LARGE_AT: Final = 32 * 2**20
"""The same for the bytes of values that are kept in blobs."""

MOST_PARALLEL: Final = 16
"""The most requests that are sent at the same time: as many as `odm.concurrency.in_threads` has threads."""

LEAST: Final = 25
"""Fewer operations than this are not divided into several requests; DynamoDB takes so many at once."""


class Pending:
    """The operations of a batch that are not sent yet, by key.

    Attributes:
        open: the batch is inside its ``with`` block; it is sent when the block ends.

    Args:
        current: returns the current context of the store.
        parallel: how many requests are sent at the same time.

    Raises:
        BadValue: ``parallel`` is not an int from 1 to 16.
    """

    def __init__(self, current: Callable[[], Context], parallel: int = 1) -> None:
        if type(parallel) is not int or not 1 <= parallel <= MOST_PARALLEL:
            raise BadValue(
                f"parallel={brief(parallel)}: give the number of requests to send at the same time, 1 to "
                f"{MOST_PARALLEL}"
            )
        self._current = current
        self._parallel = parallel
        self.open = False
        self._start()

    def _start(self) -> None:
        """Begin without operations."""
        self._operations: dict[Key, req.Put | req.Delete] = {}
        self._merges: dict[Key, Merging] = {}
        self._arguments: dict[Key, list[Entity | Query[Any] | Given]] = {}
        self._targets: dict[Key, Target] = {}
        self._actions = 0
        self._large = 0

    @property
    def _context(self) -> Context:
        """The current context of the store: entities can join the table inside the block."""
        return self._current()

    def put(self, entity: E) -> E:
        """Add a put; returns the entity as it will be stored.

        Raises:
            BadValue: the batch is not open, or the entity has a Revision, which a batch cannot check.
        """
        self._check_open()
        target, stored, request = put_request(self._context, entity, batched=True)
        check_unconditional(target, request)
        large = sum(len(value.data) for value in new_values(request)) if target.entity.blobs else 0
        if large:
            self._context.folder(target.entity)
        self._large += large
        self._add(request, target, stored)
        return stored

    def delete(self, which: Any, /, *unnamed: Any, **key: Any) -> None:
        """Add a delete of an entity, or of a key.

        Raises:
            BadValue: the batch is not open, or an entity with a Revision is passed, which a batch cannot check.
        """
        schema = self._context.schema
        if unnamed:
            raise schema.no_names("delete", which, unnamed)
        named = schema.named(which, key)
        self._check_open()
        target = schema.target(named)
        self._context.check_key(target)
        if target.revision is not None:
            raise BadValue(
                f"{brief(which)} has a Revision, which a batch cannot check: delete() it on its own, or give its key"
            )
        if any(companion.deletes for companion in target.entity.companions):
            raise BadValue(
                f"{target.entity.name} has {_names(target.entity)}, which is deleted with it on conditions that a "
                "batch does not have: delete() it on its own, or in a transaction"
            )
        self._add(delete_request(target), target, target.query)

    def merge(self, which: Entity | Query[Any], actions: Sequence[Action]) -> None:
        """Add a merge. With an earlier merge of the same item it becomes one; with an earlier put, a put.

        Raises:
            BadValue: the batch is not open, or the entity or an action cannot be merged.
        """
        self._check_open()
        write = merge_write(self._context, which, actions)
        key, request, argument = write.target.key, write.request, (write.target.query, *actions)
        if (operation := self._operations.get(key)) is not None:
            before = operation.item if isinstance(operation, req.Put) else None
            self._operations[key] = merged_put(self._context, write.target, request, before)
        elif (merging := self._merges.get(key)) is not None:
            merging.add(request.actions)
        else:
            self._merges[key] = Merging(request)
            self._targets[key] = write.target
        self._actions += len(actions)
        self._arguments.setdefault(key, []).append(argument)

    def _check_open(self) -> None:
        if not self.open:
            raise BadValue(
                "a batch is sent when its block ends, and this one is not in a block: write "
                "with db.batch() as batch: ... (async with, of an AsyncStore)"
            )

    def _add(self, request: req.Put | req.Delete, target: Target, argument: Entity | Query[Any]) -> None:
        self._operations.pop(request.key, None)
        self._merges.pop(request.key, None)
        self._operations[request.key] = request
        self._targets[request.key] = target
        self._arguments[request.key] = [argument]

    @property
    def full(self) -> bool:
        """Whether enough operations were collected to send them."""
        most = self._parallel
        many = len(self._operations) >= FLUSH_AT * most or self._actions >= MERGE_AT * most
        return many or self._large >= LARGE_AT * most

    def close(self) -> None:
        """End the block; discards operations that were not sent."""
        self.open = False
        self._start()

    def flush(self) -> CoreGen[None]:
        """Send the collected operations.

        Raises:
            Throttled: ``left`` has the entities that were not put, the keys that were not deleted, and the arguments of
                the merges that were not made.
            ItemInvalid: a key holds an item of another program; no put or delete of it was sent, and if a put or delete
                found it, none of the collected operations was.
            OdmError: a request failed; ``left`` has its entries too.
        """
        operations, merges, targets, arguments = self._operations, self._merges, self._targets, self._arguments
        self._start()
        try:
            context = self._context
        except OdmError as error:  # the store was closed in the block
            error.left = tuple(argument for some in arguments.values() for argument in some)
            raise
        parts = self._divided([*operations.items()])
        checks = [check_strangers(context, dict(part), targets, {}) for part in parts]
        try:
            checked = [(yield from checks[0])] if len(checks) == 1 else (yield from concurrent(checks))
        except Throttled as error:
            error.left = tuple(argument for some in arguments.values() for argument in some)
            raise
        if context.blobs is not None:
            checked = yield from self._uploaded(context.blobs, checked, arguments)
        writes = [req.BatchWrite(kept) for kept in checked if kept]
        merging = self._divided([merge.request for merge in merges.values()])
        yield from send_all(context, writes, merging, targets, arguments)
        yield from trim_after(context, [operation for kept in checked for operation in kept])

    @staticmethod
    def _uploaded(
        folder: BlobFolder, parts: Sequence[tuple[req.Put | req.Delete, ...]], arguments: Mapping[Key, Sequence[Any]]
    ) -> CoreGen[list[tuple[req.Put | req.Delete, ...]]]:
        """The operations as they are sent, after the upload of their large values; what they replace stays."""
        try:
            yield from upload(folder, [operation for part in parts for operation in part], set())
        except OdmError as error:
            error.left = tuple(argument for some in arguments.values() for argument in some)
            raise
        return [tuple(cast("req.Put | req.Delete", plain(operation)) for operation in part) for part in parts]

    def _divided(self, whole: Sequence[T]) -> list[Sequence[T]]:
        """As many parts as requests are sent at the same time, unless there are few operations."""
        size = max(LEAST, -(-len(whole) // self._parallel))
        return [whole[start : start + size] for start in range(0, len(whole), size)]


def check_unconditional(target: Target, request: req.Put) -> None:
    """Raise BadValue for a put that needs a condition, or a read of what it replaces: a batch has neither."""
    if target.entity.revision is not None:
        raise BadValue(
            f"{target.entity.name} has a Revision, and a batch cannot check it, so it could overwrite another "
            "writer's change: put() it on its own; new ones can be loaded with db.run(bulk_load(items, new=True)), "
            "of odm.patterns.bulk_load"
        )
    if target.entity.versioned:
        raise BadValue(
            f"{target.entity.name} keeps former values (CellVersions), and a batch does not read the value that it "
            "replaces: put() it on its own, or in a transaction; new ones can be loaded with "
            "db.run(bulk_load(items, new=True)), of odm.patterns.bulk_load"
        )
    if request.known is not None:
        raise BadValue(
            f"{target.entity.name}: a batch replaces whole items, and its table has keep_unknown=True: put() it on "
            "its own, or in a transaction"
        )
    if target.entity.blobs:
        check_own(target, request, "a batch")
    if target.entity.companions:
        raise BadValue(
            f"{target.entity.name} has {_names(target.entity)}, which is written on conditions that a batch does "
            "not have: put() it on its own, or in a transaction; new ones can be loaded with "
            "db.run(bulk_load(items, new=True)), of odm.patterns.bulk_load"
        )


def check_strangers(
    context: Context,
    operations: Mapping[Key, req.Put | req.Delete],
    targets: Mapping[Key, Target],
    arguments: Mapping[Key, Any],
) -> CoreGen[tuple[req.Put | req.Delete, ...]]:
    """The operations to send: all except deletes of items that the store skips (``on_unknown="skip"``).

    Raises:
        ItemInvalid: a key holds an item of another program.
        Throttled: the tags could not be read; ``left`` has all entities and keys of the batch.
    """
    kept = tuple(operations.values())
    if not kept or context.schema.exclusive:
        return kept
    patterns = tuple(operation.pattern for operation in kept)
    tags = {targets[key].entity.tag for key in operations}
    expected = tags.pop() if len(tags) == 1 else None
    request = req.BatchGet(tuple(operations), consistent=False, patterns=patterns, tags=True, expected=expected)
    try:
        items = yield request
    except Throttled as error:
        error.left = tuple(arguments[key] for key in operations if key in arguments)
        raise
    skipped = set()
    for operation, item in zip(kept, items, strict=True):
        if item is None or (stranger := context.stranger(targets[operation.key], item)) is None:
            continue
        if isinstance(operation, req.Put) or context.living(item) is not None:
            raise stranger
        skipped.add(operation.key)
    return tuple(operation for operation in kept if operation.key not in skipped)


def _names(entity: EntitySchema) -> str:
    return " and ".join(f"{entity.name}.{companion.name}" for companion in entity.companions)


class BatchSteps(Hinted):
    """The batch of a procedure: `send` sends all operations once, at the end. The last operation on a key wins."""

    _odm_hints = BATCH

    def __init__(self, current: Callable[[], Context], parallel: int = 1) -> None:
        self._pending = Pending(current, parallel)
        self._pending.open = True

    def put(self, entity: E) -> E:
        """Write an entity; replaces any item under its key. Raises BadValue if it has a Revision.

        Returns:
            The entity as it will be stored, with its automatic fields.
        """
        return self._pending.put(entity)

    def delete(self, which: type[Entity] | Entity | Query[Any], /, *unnamed: Never, **key: Any) -> None:
        """Remove an item; no error if it does not exist."""
        self._pending.delete(which, *unnamed, **key)

    def merge(self, which: Entity | Query[Any], /, *actions: Action) -> None:
        """Write parts of an item without reading it; see `odm.Store.merge`."""
        self._pending.merge(which, actions)

    def send(self) -> CoreGen[None]:
        """Send all operations.

        Raises:
            Throttled: ``left`` has the entities that were not put, the keys that were not deleted, and the arguments of
                the merges that were not made.
        """
        try:
            yield from self._pending.flush()
        finally:
            self._pending.close()
