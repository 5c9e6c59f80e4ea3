"""Large values of fields with `odm.Blob`: which writes concern them, their conditions, and how they are read.

`odm.codec.types.blobs` has their stored form, `odm.procedures.companions.one_by_one` the order of uploads, writes and
removals.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, cast

from odm.codec import TAG
from odm.codec.types.blobs import BLOB, Pointer, pointer_of
from odm.entities.blobs import LazyBytes
from odm.entities.entity import Entity
from odm.errors import BackendError, BadValue, Conflict, ItemInvalid, OdmError, Unsupported, brief
from odm.expressions.nodes import Compare, Condition, Const, Item, Missing, Path, Remove, Set
from odm.immutable import Immutable, evolve
from odm.procedures.context import Context
from odm.procedures.writing.update import ItemUpdate
from odm.procedures.writing.upgrades import unchanged, up_to_date
from odm.procedures.writing.write import Write
from odm.protocol import requests as req
from odm.protocol.blobs import BlobFolder, BlobRequest, ClaimFolder, Content, ReadBlob, WriteBlob
from odm.protocol.connection import Connection, CoreGen, aperform, arun, perform, run
from odm.protocol.contention import Contention
from odm.schema.entity import EntitySchema, Key, Target

_Place: TypeAlias = tuple[str, Mapping[str, Any]]
"""A stored name and the pointer under it."""


def concerns(intent: Write | ItemUpdate) -> bool:
    """Whether a write may store, replace or remove a large value, so that it must read the item first."""
    entity = intent.target.entity
    if not entity.blobs or intent.name == "check":
        return False
    if isinstance(intent, Write) or intent.upsert or intent.whole is not None:
        return True
    return any(action.path.root in entity.blobs for action in intent.actions)


def same_pointers(entity: EntitySchema, there: Item) -> list[Condition]:
    """The conditions that the item has the same blobs; a value that is stored in the item may be another."""
    if not entity.codec.upgrades.current(there):  # its fields may have other names
        same = unchanged(entity, there)
        return [] if same is None else [same]
    conditions: list[Condition] = []
    for stored in entity.blobs:
        path, pointer = Path((stored, BLOB)), pointer_of(there.get(stored))
        conditions.append(Missing(path) if pointer is None else Compare("=", path, Const(pointer[BLOB])))
    return conditions


def before(context: Context, target: Target, there: Item | None) -> Item | None:
    """The stored item with the current names of its fields; as it is if it cannot be upgraded."""
    try:
        return None if there is None else up_to_date(context, target.entity, there, target.key)
    except ItemInvalid:
        return there


def misplaced(context: Context, target: Target, operation: req.Operation, there: Item | None) -> OdmError | None:
    """The error for a put that keeps a blob which is not that of the stored item; None if there is no such.

    An item that refers to the blob of another one would lose it when that is changed or deleted.
    """
    if not isinstance(operation, req.Put):
        return None
    there = before(context, target, there)
    for stored in target.entity.blobs:
        value = operation.item.get(stored)
        pointer = None if isinstance(value, Pointer) else pointer_of(value)
        if pointer is not None and (there is None or there.get(stored) != pointer):
            return Conflict(
                f"{target}: the value of {stored!r} is in the blob {pointer[BLOB]}, which is not that of the stored "
                "item: that was changed, was deleted or expired since you read it, or the value is from another item: "
                "read it again, or give the bytes, LazyBytes(value.read())"
            )
    return None


def check_own(target: Target, operation: req.Put, call: str) -> None:
    """Refuse a put without a read that would keep a blob.

    Raises:
        BadValue: a value refers to a blob.
    """
    for stored in target.entity.blobs:
        value = operation.item.get(stored)
        if not isinstance(value, Pointer) and pointer_of(value) is not None:
            raise BadValue(
                f"{target}: the value of {stored!r} is in a blob, which {call} cannot keep, because it does not read "
                "the stored item: put() it on its own, or give the bytes, LazyBytes(value.read())"
            )


def new_values(operation: req.Operation) -> Iterator[Pointer]:
    """The values of an operation that are to be uploaded before it is sent."""
    if isinstance(operation, req.Put):
        yield from (value for value in operation.item.values() if isinstance(value, Pointer))
    elif isinstance(operation, req.Update):
        yield from (
            action.value
            for action in operation.actions
            if isinstance(action, Set) and isinstance(action.value, Pointer)
        )


def plain(operation: req.Operation) -> req.Operation:
    """The operation as a backend gets it, with plain pointers."""
    if not any(True for _ in new_values(operation)):
        return operation
    if isinstance(operation, req.Put):
        return evolve(operation, item={name: _plain(value) for name, value in operation.item.items()})
    assert isinstance(operation, req.Update)
    actions = [
        evolve(action, value=_plain(action.value)) if isinstance(action, Set) else action
        for action in operation.actions
    ]
    return evolve(operation, actions=tuple(actions))


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Pointer) else value


def names_in(entity: EntitySchema, item: Item | None) -> set[str]:
    """The blobs that an item refers to."""
    pointers = () if item is None else (pointer_of(item.get(stored)) for stored in entity.blobs)
    return {pointer[BLOB] for pointer in pointers if pointer is not None}


def names_after(entity: EntitySchema, operation: req.Operation, there: Item | None) -> set[str]:
    """The blobs that the item refers to after an operation on the stored item."""
    if isinstance(operation, req.Put):
        return names_in(entity, operation.item)
    if isinstance(operation, req.Update):
        changes = {action.path.root: action for action in operation.actions if isinstance(action, Set | Remove)}
        kept = {name: value for name, value in (there or {}).items() if name not in changes}
        return names_in(
            entity, kept | {name: action.value for name, action in changes.items() if isinstance(action, Set)}
        )
    return set() if isinstance(operation, req.Delete) else names_in(entity, there)


def check_eager(entity: EntitySchema, call: str) -> None:
    """Refuse a call that returns an item whose large values were not read with it.

    Raises:
        Unsupported: a field of the entity is read with the item.
    """
    eager = [stored for stored, eager in entity.blobs.items() if eager]
    if eager:
        raise Unsupported(
            f"{call} of {entity.name} does not read the large value of {brief(eager[0])}, which is read with its item: "
            "get() the item afterwards, or declare the field as Annotated[LazyBytes, Blob(...)]"
        )


def check_many(entity: EntitySchema | None, call: str) -> None:
    """Refuse a read of many items of an entity whose large values are read with the item.

    Another writer may replace a value between the page and its blob, and the item that is there then may not match.

    Raises:
        Unsupported: always, for such an entity.
    """
    if entity is None or not entity.blobs:
        return
    eager = [stored for stored, eager in entity.blobs.items() if eager]
    if eager:
        raise Unsupported(
            f"{call}() of {entity.name} reads many items, and only get() and get_many() read the large value of "
            f"{eager[0]!r} with its item: declare the field as Annotated[LazyBytes, Blob(...)], or read other fields "
            "with only=[...]"
        )


def with_values(context: Context, key: Key, item: Item, pattern: str) -> CoreGen[Item | None]:
    """The stored item, with its values in place of the pointers of fields that are read with it.

    Returns:
        The item; if it was changed meanwhile, the new one; None: it was deleted.

    Raises:
        ItemInvalid: a blob does not exist, or its content is not what the item says.
        Conflict: other writers replaced a value whenever the item was read.
    """
    there: Item | None = item
    contention: Contention | None = None
    while True:
        if there is None or not context.schema.knows(there):
            return there
        entity = context.schema.entities[there[TAG]]
        pointers = {stored: pointer_of(there.get(stored)) for stored, eager in entity.blobs.items() if eager}
        eager_pointers = {stored: pointer for stored, pointer in pointers.items() if pointer is not None}
        if not eager_pointers:
            return there
        folder = context.folder(entity)
        contents = yield _together(ReadBlob(folder, pointer[BLOB]) for pointer in eager_pointers.values())
        missing = [
            pointer for pointer, content in zip(eager_pointers.values(), contents, strict=True) if content is None
        ]
        if not missing:
            checked = [
                _checked(entity, key, there, *blob) for blob in zip(eager_pointers.items(), contents, strict=True)
            ]
            return {**there, **dict(zip(eager_pointers, checked, strict=True))}
        contention = contention or Contention()
        if contention.over:
            raise contention.conflict(f"{entity.name} under {key}")
        if contention.tries:
            yield contention.pause(context.random)
        contention.tries += 1
        again: Item | None = yield req.Get(key, pattern=pattern)
        if again is not None and missing[0][BLOB] in names_in(entity, again):
            raise _lost(entity, key, again, missing[0])
        there = again


def _checked(entity: EntitySchema, key: Key, item: Item, place: _Place, content: Content) -> bytes:
    """The content of a blob; raises ItemInvalid if it is not what the pointer says."""
    stored, expected = place
    if len(content.data) == expected["size"] and content.sha256 == expected["sha256"]:
        return content.data
    raise ItemInvalid(
        f"{entity.name} under {key}: blob {expected[BLOB]} of {stored!r} has {len(content.data)} bytes and the SHA-256 "
        f"{content.sha256}, and the item says {expected['size']} and {expected['sha256']}: restore the blob, or set "
        "the value again",
        str(key),
        item,
    )


def _lost(entity: EntitySchema, key: Key, item: Item, pointer: Mapping[str, Any]) -> ItemInvalid:
    """The error for a blob that does not exist though the stored item refers to it."""
    return ItemInvalid(
        f"{entity.name} under {key}: the blob {pointer[BLOB]} does not exist: check that blobs= is the folder with "
        "which the item was written; restore the blob, or set the value again",
        str(key),
        item,
    )


class BoundValue(Immutable):
    """Reads the large value of one field of an item that was read before; see `odm.LazyBytes`."""

    binder: "Binder"
    entity: EntitySchema
    key: Key
    stored: str
    pointer: Mapping[str, Any]

    def read(self) -> bytes:
        return run(self._steps(), partial(perform, self.binder.connection))

    async def aread(self) -> bytes:
        return await arun(self._steps(), partial(aperform, self.binder.connection))

    def _steps(self) -> CoreGen[bytes]:
        entity, key, pointer = self.entity, self.key, self.pointer
        content: Content | None = yield ReadBlob(self.binder.context.folder(entity), pointer[BLOB])
        if content is not None:
            return _checked(entity, key, {self.stored: pointer}, (self.stored, pointer), content)
        item: Item | None = yield req.Get(key, pattern=entity.primary.full_name)
        if item is not None and pointer[BLOB] in names_in(entity, item):
            raise _lost(entity, key, item, pointer)
        raise Conflict(
            f"{entity.name} under {key}: the value of {self.stored!r} was replaced, or the item deleted, since you "
            "read it: read the item again"
        )


class Binder(Immutable):
    """Binds the large values of entities that were read to the store that read them.

    Attributes:
        context: of the store.
        connection: answers the requests.
    """

    context: Context
    connection: Connection[Any]

    def __call__(self, entity: Entity) -> None:
        schema = self.context.schema.by_class[type(entity)]
        if not schema.blobs:
            return
        values = vars(entity)
        for name, stored in schema.codec.stored.items():
            value = values[name] if stored in schema.blobs else None
            if isinstance(value, LazyBytes) and value.pointer is not None:
                value.bind(BoundValue(self, schema, schema.key(values), stored, value.pointer))


def _together(requests: Iterable[BlobRequest], *, keep: bool = False) -> req.Gather:
    """Requests to a folder, sent together. They are no requests of a backend: who answers a `Gather` knows both."""
    return req.Gather(cast("tuple[req.Request, ...]", tuple(requests)), keep)


def gathered(requests: Sequence[BlobRequest]) -> CoreGen[Sequence[Any]]:
    """The responses to requests to a folder that are sent together; a failure is a `req.Failed`."""
    if not requests:
        return ()
    answers: Sequence[Any] = yield _together(requests, keep=True)
    return answers


def claim(folder: BlobFolder) -> CoreGen[None]:
    """Mark the folder as that of the table, before the first blob of a store is written to it.

    Raises:
        BadValue: it belongs to another table.
        BackendError: the marker cannot be read or written.
    """
    if not folder.claimed:
        table: req.TableIdentity = yield req.IdentifyTable(assign=True)
        yield ClaimFolder(folder, table)


def create(context: Context) -> CoreGen[None]:
    """Create the table, and mark the folder of its blobs.

    A role that creates tables may have no access to the folder: then the first write of a blob marks it.

    Raises:
        BadValue: the folder belongs to another table.
        BackendError: the table cannot be created.
    """
    yield req.CreateTables()
    if context.blobs is not None and any(entity.blobs for entity in context.schema.entities.values()):
        with suppress(BackendError, Unsupported):
            yield from claim(context.blobs)


def upload(folder: BlobFolder, operations: Iterable[req.Operation], done: set[str]) -> CoreGen[None]:
    """Upload the new values of operations, except those in ``done``, to which their names are added.

    Raises:
        BadValue: the folder belongs to another table.
        BackendError: a blob cannot be written.
    """
    values = {value["blob"]: value.data for operation in operations for value in new_values(operation)}
    if values:
        yield from claim(folder)
    new = {name: data for name, data in values.items() if name not in done}
    done.update(new)
    for answer in (yield from gathered([WriteBlob(folder, name, data) for name, data in new.items()])):
        if isinstance(answer, req.Failed):
            raise answer.error
