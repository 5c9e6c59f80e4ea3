"""The semantics of the bundled engine: performs each request of the core on a `Storage`.

Every write reads the record, checks the condition, builds the new record, and only then changes the storage: no step
that can fail comes after the first change. A page ends after about a megabyte, as on the clouds, so that a long query
streams. The engine reads one more row, so it knows exactly whether another page follows.
"""

from collections.abc import Collection, Mapping
from contextlib import closing
from functools import partial
from typing import Any, Final, NamedTuple, assert_never

from attrs import Factory, evolve, frozen

from odm.backends.local.codec import decode, encode
from odm.backends.local.storage import Record, Row, Rows, Storage, View, not_created, position_of
from odm.codec import ItemText, ItemTexts, Lazy, TextLoader, tag_of
from odm.errors import BadValue
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Item
from odm.protocol import requests as req
from odm.protocol.apply_update import apply_update
from odm.protocol.limits import Local, check_transaction, stored_size
from odm.schema.entity import Key

PAGE_BYTES: Final = 1 << 20
"""A page ends after reading this many bytes, as on DynamoDB."""

CHUNK: Final = 500
"""The number of operations of a batch that become durable in one step."""


@frozen
class Engine:
    """Performs requests on one table.

    Attributes:
        table: the table's name, for messages.
        indexes: the names of the schema's indexes.
        storage: the storage of the table.
        loader: loads entities from stored items.
        page_bytes: a page ends after reading this many bytes.
        tags: the tags of the entities.
        local: the local indexes, each with the attributes that it projects on DynamoDB; None: all.
        held: for each index that does not project all attributes on DynamoDB, the attributes that it projects. They
            only affect capacity units; in this engine an index entry always leads to the whole item.
    """

    table: str
    indexes: Collection[str]
    storage: Storage
    loader: TextLoader
    page_bytes: int = PAGE_BYTES
    tags: Collection[str] = frozenset()
    local: Local = Factory(dict)
    held: Mapping[str, Collection[str]] = Factory(dict)

    def perform(self, request: req.Request) -> Any:
        """Perform a request; its docstring describes the response.

        Raises:
            BackendError: the table or an index was not created, or the storage failed.
            BadValue: an action of an update does not fit the stored item, or makes it too large.
        """
        match request:
            case req.Get(key):
                with self.storage.reading() as view:
                    return self._item(view.get(key))
            case req.BatchGet(keys):
                with self.storage.reading() as view:
                    return tuple(map(self._item, view.get_many(keys)))
            case req.Put() | req.Update() | req.Delete():
                with self.storage.writing() as view:
                    return self._write(view, request)
            case req.Transact():
                with self.storage.writing() as view:
                    return self._transact(view, request)
            case req.BatchWrite(operations):
                return self._write_all(operations)
            case req.Query(index=index):
                with self.storage.reading() as view:
                    self._require(view, () if index is None else (index,))
                    with closing(view.rows(request)) as rows:
                        return _page(rows, request, self)
            case req.Scan(after=after, segment=segment):
                with self.storage.reading() as view, closing(view.scan(after and after.key, segment)) as rows:
                    page = _page(rows, request, self)
                    return evolve(page, entries=_entries(view, page)) if request.entries else page
            case req.Split():
                return None
            case req.CreateTables():
                return self.storage.create(self.indexes)
            case req.DropTables():
                return self.storage.drop()
            case _:
                assert_never(request)

    def _item(self, data: bytes | None) -> ItemText | None:
        return None if data is None else ItemText(data, decode, self.loader)

    def _write_all(self, operations: tuple[req.Put | req.Delete, ...]) -> None:
        for start in range(0, len(operations), CHUNK):
            with self.storage.writing() as view:
                for operation in operations[start : start + CHUNK]:
                    self._write(view, operation)

    def _transact(self, view: View, request: req.Transact) -> req.Written | req.Refusals:
        judged = [self._verdict(view, operation) for operation in request.operations]
        changes = [one for one in judged if isinstance(one, _Change)]
        if len(changes) < len(judged):
            return req.Refusals(tuple(None if isinstance(one, _Change) else one for one in judged))
        size = sum(
            stored_size(change.item, change.key, change.new.entries, self.local)
            for change in changes
            if change.item is not None and change.new is not None
        )
        check_transaction(len(changes), size, request.limits)
        for change in changes:
            self._apply(view, change)
        return req.Written()

    def _verdict(self, view: View, operation: req.Operation) -> "_Change | req.Refused | BadValue":
        try:
            return self._judge(view, operation)
        except BadValue as error:
            return error

    def _write(self, view: View, request: req.Put | req.Update | req.Delete) -> req.Written | req.Refused:
        change = self._judge(view, request)
        if isinstance(change, req.Refused):
            return change
        self._apply(view, change)
        return change.answer

    def _judge(self, view: View, request: req.Operation) -> "_Change | req.Refused":
        """The change that a write makes, or its refusal. Changes nothing; to apply the change later cannot fail."""
        key = request.key
        old = view.record(key)
        guard = None if isinstance(request, req.Update) else request.tag
        if guard is not None and old is not None and tag_of(old.data) != guard:
            return req.Refused(decode(old.data))
        looks = request.condition is not None or isinstance(request, req.Update)
        before = decode(old.data) if looks and old is not None else None
        if request.condition is not None and not holds(request.condition, before):
            return req.Refused(before)
        match request:
            case req.Put():
                change = _Change(key, old, Record(encode(request.item), request.entries), request.item)
            case req.Update():
                change = _updated(request, old, before, self.local)
            case req.Delete():
                change = _Change(key, old, None, answer=req.Written(existed=old is not None))
            case req.Check():
                change = _Change(key, old, old)
            case _:
                assert_never(request)
        if change.new is not None and (old is None or old.entries != change.new.entries):
            self._require(view, change.new.entries.keys())
        return change

    def _apply(self, view: View, change: "_Change") -> None:
        """Write the record and the index entries that differ."""
        key, old, new = change.key, change.old, change.new
        if new is old:
            return
        before = old.entries if old is not None else {}
        now = new.entries if new is not None else {}
        if before != now:
            self._relink(view, key, before, now)
        if new is not None:
            view.put(key, new)
        elif old is not None:
            view.delete(key)

    def _relink(self, view: View, key: Key, before: Mapping[str, Key], now: Mapping[str, Key]) -> None:
        for index, index_key in before.items() - now.items():
            view.unlink(index, index_key, key)
        for index, index_key in now.items() - before.items():
            view.link(index, index_key, key)

    def _require(self, view: View, indexes: Collection[str]) -> None:
        for index in indexes:
            if index not in view.indexes:
                raise not_created(self.table, index)


class _Change(NamedTuple):
    """The change of a record from ``old`` to ``new`` (encoded from ``item``); None means no record."""

    key: Key
    old: Record | None
    new: Record | None
    item: Item | None = None
    answer: req.Written = req.Written()


def _updated(request: req.Update, old: Record | None, before: Item | None, local: Local) -> _Change:
    after, kept = apply_update(request, before, old.entries if old is not None else {}, local)
    returned = {"none": None, "old": before, "new": after}[request.returning]
    return _Change(request.key, old, Record(encode(after), kept), after, req.Written(returned))


def _entries(view: View, page: req.Page) -> list[Mapping[str, Key]]:
    """The index entries of the items of a page that was read in the same view."""
    records = [view.record(position.key) for position in page.positions]
    return [{} if record is None else record.entries for record in records]


def _page(rows: Rows, request: req.Query | req.Scan, engine: Engine) -> req.Page:
    filter_, limit = request.filter, request.limit
    found: list[Row] = []
    read = 0
    last: Row | None = None
    for row in rows:
        if read >= engine.page_bytes:
            break
        if filter_ is None or holds(filter_, decode(row[0])):
            if len(found) == limit:
                break
            found.append(row)
        read += len(row[0])
        last = row
    else:
        last = None
    following = None if last is None else position_of(request, last)
    if request.count:
        strangers = sum(tag_of(row[0]) not in engine.tags for row in found)
        return req.Page(next=following, count=len(found), strangers=strangers)
    texts = ItemTexts([row[0] for row in found], decode, engine.loader)
    return req.Page(texts, Lazy(found, partial(position_of, request)), following)
