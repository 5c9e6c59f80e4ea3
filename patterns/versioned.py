"""Versioned: the newest version of an item in one get, and its previous versions, in order.

| partition | sort | attributes |
|---|---|---|
| ``DOC#d1`` | ``v0`` | those of the document: the newest version, with its number, and ``_c_history``, its life |
| ``DOC#d1`` | ``va1``, ``va2``, … ``va9``, ``vb10``, … | those of version 1, 2, …, and ``life_`` |

The number is the document's `odm.Revision`, encoded in the key as an unbounded int, so versions sort by number::

    class Document(Entity, table=docs):
        doc_id: str
        text: str
        version: Annotated[int, Revision] = 0

        primary = PrimaryKey("DOC#{doc_id}", "v0")
        history = Versioned("DOC#{doc_id}", "v{version}", keep=10)


    db.get(Document, doc_id="d1")  # the newest
    db.query(Document.history(doc_id="d1").reverse().limit(5))  # the last five versions, including the newest
    db.get(Document.history.version(3, doc_id="d1"))  # version 3 of the document
    db.run(Document.history.compare(3, 7, doc_id="d1"))  # {"text": ("the old text", "the new text")}
    db.run(Document.history.revert(to=3, doc_id="d1"))  # a new version with the content of version 3

**When.** You need previous versions: documents, corrected prices, settings. Every put, insert and
update makes a version; a writer with an old version gets `odm.Conflict`. With ``keep=n`` the last n are kept, including
the newest. Versions are items of another class, ``Document.history.entity``, without the document's indexes; use its
fields in conditions. Do not put such an item, which would change the past: use ``version`` or ``revert``.

**Cost**, of documents below 1 KB, in DynamoDB's units:

| call | read units | write units | requests | on Bigtable |
|---|---|---|---|---|
| ``insert``, ``put`` of a new one | 1 | 4 | 2 | 4 |
| ``put``, ``update`` | 1 | 4, or 6 if it displaces a version | 2 | 5, or 6 if it displaces a version |
| ``delete`` with n versions | 3, or more if they exceed 4 KB | 1 + n | 4 + n | 4 + n |
| ``get`` | 1 | 0 | 1 | 1 |
| ``version``; ``compare`` | 2; 3 | 0 | 2 | 2 |
| ``revert`` | 3 | as ``put`` | 4 | 7, or 8 if it displaces a version |

**Guarantees.** A number is used once. An acknowledged version can be read until it is no longer kept or the document
is deleted. An interrupted write is applied as a whole or not at all; if not, its number is free. A document that is
deleted and created again begins at 1; its *life* distinguishes its versions from those of the deleted document.

**Backends.** DynamoDB, the bundled engine, and Bigtable in a table with ``transactions=True`` write document and
version in one transaction. Without it, Bigtable writes the document, if its revision is unchanged, and then the
version. If that is interrupted, the next writer stores the version before it changes the document. Until then
``history(...)`` may lack the newest version, or have the one it displaces; ``get`` and ``version`` are correct. A
delete removes the document and then its versions: if it is interrupted, ``history(...)`` returns them, until the
document is deleted or created again.

**Limits.** Batches are refused, as with any Revision; ``bulk_load(documents, new=True)`` loads new ones. A TTL is
refused: it would leave versions. A smaller ``keep=`` deletes none; ``delete_all(Document.history(...).limit(5))`` does.
A writer that read a document before it was deleted and created again, and puts it at the same number, gets no error.

**Known as** version control with a sort key prefix to AWS. Bigtable keeps timestamped cells instead, without numbers:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-sort-keys.html
https://cloud.google.com/bigtable/docs/garbage-collection
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from odm import TTL, ConditionFailed, Entity, ItemExists, PrimaryKey, Query, Revision, SchemaError, Unsupported
from odm.extend import Calls, Companion, CompanionWrites, Effect, Gen, primary_key
from odm.patterns.history import FIRST, LIFE, History, Kept, fields_of

E = TypeVar("E", bound=Entity)

PAGE: Final = 100


class Versioned(Companion):
    """Keeps the versions of an item; see the module.

    Args:
        partition: template of the partition key of versions, such as ``"DOC#{doc_id}"``.
        sort: template of their sort key, whose last field is the Revision: ``"v{version}"``. Both together have the
            fields of the primary key, and no others.
        keep: how many versions to keep, including the newest; None: all.
    """

    reads: ClassVar[bool] = True
    reads_without_transaction: ClassVar[bool] = True
    deletes: ClassVar[bool] = True
    loads = "before"

    def __init__(self, partition: str, sort: str, *, keep: int | None = None) -> None:
        self.partition, self.sort, self.keep = partition, sort, keep
        self._kept: dict[type, Kept[Any]] = {}
        self._histories: dict[type, History[Any]] = {}

    def __repr__(self) -> str:
        keep = "" if self.keep is None else f", keep={self.keep!r}"
        return f'{type(self).__name__}("{self.partition}", "{self.sort}"{keep})'

    if TYPE_CHECKING:

        def __get__(self, instance: object, owner: type[E]) -> History[E]: ...

    def of(self, entity: type[E]) -> History[E]:
        """The history of an entity."""
        return self._histories.setdefault(entity, History(self, entity, partial(self._of, entity)))

    def _of(self, entity: type[E]) -> Kept[E]:
        """The compiled declaration of an entity; compiles its table first."""
        if entity not in self._kept and entity.__odm_table__ is not None:
            entity.__odm_table__.compile()
        if entity not in self._kept:
            raise SchemaError(f"{entity.__name__} has no versions: declare class {entity.__name__}(..., table=...)")
        return self._kept[entity]

    def entities(self, entity: type[Entity]) -> Sequence[type[Entity]]:
        """The class of kept versions: the entity's fields, with the number as a plain int."""
        entity.model_rebuild(raise_errors=False)
        primary, key = primary_key(entity), PrimaryKey(self.partition, self.sort)
        number = self._check(entity, primary, key)
        declared = {"primary": key, "model_config": entity.model_config}
        version_class = self.make(entity, Entity, fields_of(entity, number), declared, upgraded=True)
        self._kept[entity] = Kept(entity, version_class, number, primary.name, key.fields, self.keep)
        return [version_class]

    def _check(self, entity: type[Entity], primary: PrimaryKey, key: PrimaryKey) -> str:
        """The field of the number. Raises SchemaError if the declaration is not valid for the entity."""
        owner = f"{entity.__name__}.{self.name} = {self!r}"
        marks = {name: info.metadata for name, info in entity.model_fields.items()}
        numbers = [name for name in marks if Revision in marks[name]]
        if not numbers:
            raise SchemaError(f"{owner}: a Revision numbers the versions: add version: Annotated[int, Revision] = 0")
        if any(TTL in marks[name] for name in marks):
            raise SchemaError(f"{owner}: an item that expires leaves its versions behind: remove TTL or the history")
        if LIFE in marks:
            raise SchemaError(f"{owner}: versions have a field {LIFE!r} of their own: rename that of {entity.__name__}")
        if self.keep is not None and (type(self.keep) is not int or self.keep < 1):
            raise SchemaError(f"{owner}: keep= is the number of versions to keep: an int of 1 or more, or None for all")
        needed, before = {*primary.fields, numbers[0]}, PrimaryKey(self.partition).fields
        ends = PrimaryKey(self.sort).fields[-1:] == (numbers[0],) and numbers[0] not in before
        if {*key.fields} != needed or not ends:
            raise SchemaError(
                f"{owner}: the key of a version is made of the fields of its item's and, at the end, of its number: "
                f"write templates with {', '.join(sorted(needed - {numbers[0]}))}, and {{{numbers[0]}}} last"
            )
        return numbers[0]

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        """In the transaction of the item: add its version, and delete the version that it displaces."""
        old, new, life = effect.old, effect.new, effect.mark
        if new is None:
            return
        kept = self._of(type(new))
        if old is None:
            life = token_urlsafe(9)
            tx.mark(life)
        elif life is None:
            life = FIRST
            tx.mark(life)
            if self.keep != 1:
                tx.put(kept.version(old, life))
        tx.put(kept.version(new, life))
        for gone in kept.goes(new, life):
            tx.delete(gone)

    def rekey_writes(
        self, tx: CompanionWrites, freed: CompanionWrites, before: Companion, old: Effect[Any], new: Effect[Any]
    ) -> None:
        """The versions stay where they are: only the mark of their life moves with the item."""
        if not isinstance(before, Versioned) or (before.partition, before.sort) != (self.partition, self.sort):
            raise Unsupported(
                f"rekey() to {new.key}: versions stay under their own keys, so {new.key.entity.__name__}.{self.name} "
                f"needs the templates of {old.key.entity.__name__}.{before.name}, {before!r}"
            )
        tx.mark(old.mark)

    def without_transaction(self, do: Calls, effect: Effect[Any], commit: Callable[..., Gen[None]]) -> Gen[None]:
        """Write the item, then its version: until the next write, the item itself has the content of that version."""
        old, new = effect.old, effect.new
        writes = do.companion_writes(self, effect)  # raises for invalid items before anything is sent
        if new is None:
            yield from commit()
            return
        kept = self._of(type(new))
        life = writes.marked if old is None else effect.mark or FIRST
        if old is not None:
            yield from self._ensure(do, kept, effect.key, old, life)
        yield from commit(mark=writes.marked)
        yield from self._ensure(do, kept, effect.key, new, life, fresh=True)

    def settle(self, do: Calls, effect: Effect[Any]) -> Gen[None]:
        """Delete the versions of an ended life: after a delete, and above the first version of a new life."""
        if effect.old is not None and effect.new is not None:
            return
        kept = self._of(effect.key.entity)
        query = kept.all(effect.key.values, above=kept.number_of(effect.new) if effect.new else -1)
        cursor, more = None, True
        while more:
            page = yield from do.page(query, size=PAGE, after=cursor)
            if page.items:
                life, _ = yield from self._newest(do, kept, effect.key)
                over = [item for item in page.items if item.life_ != life]
                yield from do.concurrent([self._remove(do, kept.key(vars(version)), version.life_) for version in over])
            cursor, more = page.cursor, page.cursor is not None

    def _newest(self, do: Calls, kept: Kept[Any], key: Query[Any]) -> Gen[tuple[str | None, int]]:
        """The life and the number of an item; None and 0 if it is absent.

        A version is written after its life began. So if a version was found *before* this read, and has another life
        than this returns, its life is over. And a later delete of the item finds every version stored before this read.
        """
        item, mark = yield from do.marked(self, key)
        return None if item is None else mark or FIRST, kept.number_of(item)

    def _ensure(
        self, do: Calls, kept: Kept[Any], key: Query[Any], item: Any, life: str, *, fresh: bool = False
    ) -> Gen[None]:
        """Store the version of an item, unless it is stored already; ``fresh``: it most likely is not.

        The displaced version is deleted first, so a writer that finds this version stored has nothing left to do. A
        delayed writer may get here when the item is in another life, or many versions later. So it replaces a stored
        version only if the life of that version is over, and deletes its own version again if it came too late.
        """
        version = kept.version(item, life)
        at = kept.key(vars(item))
        stored = None if fresh else (yield from do.get(at))
        while stored is None or stored.life_ != life:
            if stored is not None and (yield from self._newest(do, kept, key))[0] != life:
                return  # the item has another life: its write will be refused
            for gone in kept.goes(item, life):
                yield from self._remove(do, gone, life)
            try:
                if stored is None:
                    stored = yield from do.insert(version)
                else:
                    stored = yield from do.put(version, when=kept.cls.life_ == stored.life_)
            except (ItemExists, ConditionFailed):
                stored = yield from do.get(at)
                continue
            now, newest = yield from self._newest(do, kept, key)
            if now != life or kept.gone(item, newest=newest):
                yield from self._remove(do, at, life)

    def _remove(self, do: Calls, version: Query[Any], life: str) -> Gen[None]:
        """Delete a version, unless it belongs to another life."""
        with suppress(ConditionFailed):
            yield from do.delete(version, when=version.entity.life_ == life)
