"""The semantics of the bundled engine: performs each request of the core on a `Storage`.

Every write reads the records, checks the conditions, builds the new records, and only then changes the storage, with
one call of `View.apply`: no step that can fail comes after the first change. A page ends after a megabyte of items as
DynamoDB counts them, so that a long query streams. The engine reads one more row, so it knows exactly whether another
page follows.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from functools import lru_cache, partial
from itertools import islice
from random import Random
from typing import Any, Final, assert_never

from pydantic_core import to_json

from odm.backends.local import log
from odm.backends.local.codec import decode, drafted, encode
from odm.backends.local.storage import Change, Record, Row, Rows, Storage, View, not_created, position_of
from odm.codec import TAG, ItemText, ItemTexts, Lazy, TextLoader, tag_of
from odm.errors import BackendError, BadValue
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Item
from odm.immutable import Immutable, evolve, field
from odm.protocol import requests as req
from odm.protocol.apply_update import merged_item, new_entries, new_item
from odm.protocol.limits import Limits, Local, check_item, check_transaction, keys_at_most, size_at_most, stored_size
from odm.protocol.predicates import is_own
from odm.schema.entity import Key
from odm.schema.evidence import FEW, Stored

PAGE_BYTES: Final = 1 << 20
"""A page ends after reading this many bytes, as on DynamoDB, with the item that reaches them."""

ESTIMATED: Final = 2048
"""The size of a row of up to so many bytes is estimated from its JSON, which is faster than reading it."""

KEY_BYTES: Final = 256
"""Twice the JSON of an item and so many bytes are more than the size of an item with its keys."""

_SIGNS: Final = b'"{}[]:,'

_ALL: Final = req.Scan()

CHUNK: Final = 500
"""The number of operations of a batch that become durable in one step."""


class Engine(Immutable):
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
        hash_only: the table has no sort key; None: it can have items with one and without, as keys as they are can.
        misfit: says why the models would not find one of some items; None: they do.
    """

    table: str
    indexes: Collection[str]
    storage: Storage
    loader: TextLoader
    page_bytes: int = PAGE_BYTES
    tags: Collection[str] = frozenset()
    local: Local = field(factory=dict)
    held: Mapping[str, Collection[str]] = field(factory=dict)
    hash_only: bool | None = None
    misfit: Callable[[Sequence[Stored]], str | None] = lambda _: None

    def perform(self, request: req.Request) -> Any:
        """Perform a request; its docstring describes the response.

        Raises:
            BackendError: the table or an index was not created, or the storage failed.
            BadValue: an action of an update does not fit the stored item, or makes it too large.
        """
        match request:
            case req.Get(key):
                view = self.storage.reading()
                with view.block:
                    return self._item(view.get(key))
            case req.BatchGet(keys):
                return self._get_many(keys)
            case req.Put() | req.Update() | req.Delete() | req.Merge():
                view = self.storage.writing()
                with view.block:
                    return self._write(view, request)
            case req.Transact():
                view = self.storage.writing()
                with view.block:
                    return self._transact(view, request)
            case req.BatchWrite(operations):
                return self._write_all(operations)
            case req.BatchMerge(operations):
                return self._merge_all(operations)
            case req.Query(index=index):
                view = self.storage.reading()
                with view.block:
                    if index is not None:
                        self._require(view, (index,))
                    rows = view.rows(request)
                    try:
                        return _page(rows, request, self)
                    finally:
                        rows.close()
            case req.Scan():
                return self._scan(request)
            case req.Split():
                return None
            case req.ListShards() | req.ReadChanges():
                view = self.storage.reading()
                with view.block:
                    return log.answer(view, self.table, request)
            case req.CreateTables() | req.DropTables() | req.ListTables() | req.AlterTables():
                return self._administer(request)
            case req.IdentifyTable() | req.MeasureTable():
                return self._administer(request)
            case _:
                assert_never(request)

    def _administer(self, request: req.AdminRequest) -> Any:
        match request:
            case req.CreateTables():
                self.storage.create(self.indexes)
                return self._check_keys()
            case req.DropTables():
                return self.storage.drop()
            case req.ListTables(beginning):
                return tuple(name for name in self.storage.names() if name.startswith(beginning))
            case req.AlterTables():
                return ()
            case req.IdentifyTable(assign):
                return self.storage.identity(assign=assign)
            case req.MeasureTable():
                view = self.storage.reading()
                with view.block:
                    return req.TableSize(*view.size())
            case _:
                assert_never(request)

    def _check_keys(self) -> None:
        """Raise BackendError if the models would not find the stored items, judged by the first ones.

        They have a sort key and those of the models have none, or the reverse, which DynamoDB refuses too; or they were
        written with another ``key_style``.
        """
        view = self.storage.reading()
        with view.block, closing(view.scan(None)) as rows:
            items = [Stored(position_of(_ALL, row).key, decode(row[0]), {}) for row in islice(rows, FEW)]
        if self.hash_only is not None and any((item.key.sort == "") is not self.hash_only for item in items[:1]):
            has, have = ("has a sort key", "none") if self.hash_only else ("has no sort key", "one")
            raise BackendError(
                f"table {self.table!r} exists and {has}, but the models have {have}, so they would not find its items: "
                "the first sort template of a table gives all its entities a sort key. Put the entity with it into "
                "another table, or copy the items to a new table"
            )
        if text := self.misfit(items):
            raise BackendError(text)

    def _item(self, data: bytes | None) -> ItemText | None:
        return None if data is None else ItemText(data, decode, self.loader)

    def _scan(self, request: req.Scan) -> req.Page:
        view, after = self.storage.reading(), request.after
        rows = _drawn(view.scan(after and after.key, request.segment, request.partitions), request.sample)
        with view.block, closing(rows):
            page = _page(rows, request, self)
            return evolve(page, entries=_entries(view, page)) if request.entries else page

    def _get_many(self, keys: tuple[Key, ...]) -> tuple[ItemText | None, ...]:
        view = self.storage.reading()
        with view.block:
            return tuple(map(self._item, view.get_many(keys)))

    def _write_all(self, operations: tuple[req.Put | req.Delete, ...]) -> None:
        for start in range(0, len(operations), CHUNK):
            view = self.storage.writing()
            with view.block:
                changes: list[Change] = []
                newest: dict[Key, Record | None] = {}
                for operation in operations[start : start + CHUNK]:
                    key = operation.key
                    change = self._judge(operation, view, newest[key] if key in newest else view.record(key))
                    if isinstance(change, Change):
                        newest[key] = change.new
                        changes.append(change)
                view.apply(changes)

    def _merge_all(self, merges: tuple[req.Merge, ...]) -> tuple[req.Written | req.Refused | req.Failed, ...]:
        answers: list[req.Written | req.Refused | req.Failed] = []
        for start in range(0, len(merges), CHUNK):
            view = self.storage.writing()
            with view.block:
                judged = [self._verdict(view, merge) for merge in merges[start : start + CHUNK]]
                view.apply([judgement for judgement in judged if isinstance(judgement, Change)])
            for judgement in judged:
                failed = req.Failed(judgement) if isinstance(judgement, BadValue) else judgement
                answers.append(failed.answer if isinstance(failed, Change) else failed)
        return tuple(answers)

    def _transact(self, view: View, request: req.Transact) -> req.Written | req.Refusals:
        judged = [self._verdict(view, operation) for operation in request.operations]
        changes = [judgement for judgement in judged if isinstance(judgement, Change)]
        if len(changes) < len(judged):
            return req.Refusals(tuple(None if isinstance(judgement, Change) else judgement for judgement in judged))
        self._check_size(changes, request.limits)
        view.apply(changes)
        return req.Written()

    def _check_size(self, changes: Sequence[Change], limits: Limits) -> None:
        """Raise ItemTooLarge for a transaction whose new items are too large together."""
        size, most = 0, limits.transaction_bytes
        for change in changes:
            if change.item is not None and change.new is not None:
                size += size_at_most(change.item) + keys_at_most(change.key, change.new.entries)
        if most is not None and size > most:  # decodes every draft, so only near the limit
            written = [
                (change.item, change.key, change.new.entries)
                for change in changes
                if change.item is not None and change.new
            ]
            size = sum(stored_size(*written_item, self.local) for written_item in written)
        check_transaction(len(changes), size, limits)

    def _verdict(self, view: View, operation: req.Operation | req.Merge) -> Change | req.Refused | BadValue:
        try:
            return self._judge(operation, view, view.record(operation.key))
        except BadValue as error:
            return error

    def _write(self, view: View, request: req.Put | req.Update | req.Delete | req.Merge) -> req.Written | req.Refused:
        change = self._judge(request, view, view.record(request.key))
        if isinstance(change, req.Refused):
            return change
        view.apply((change,))
        return change.answer

    def _judge(self, request: req.Operation | req.Merge, view: View, old: Record | None) -> Change | req.Refused:
        """The change that a write makes, or its refusal. Changes nothing; to apply the change later cannot fail."""
        key = request.key
        if isinstance(request, req.Update):
            before = None if old is None else decode(old.data)
            if not is_own(request, before) or (request.condition is not None and not holds(request.condition, before)):
                return req.Refused(before)
            self._require(view, [index for index, index_key in request.entries.items() if index_key is not None])
            return _updated(request, old, before, self.local)
        if request.tag is not None and old is not None and not _has_tag(old.data, request.tag):
            return req.Refused(decode(old.data))
        keeps = isinstance(request, req.Put) and request.known is not None
        condition = None if isinstance(request, req.Merge) else request.condition
        looks = condition is not None or isinstance(request, req.Merge) or keeps
        before = decode(old.data) if looks and old is not None else None
        if condition is not None and not holds(condition, before):
            return req.Refused(before)
        match request:
            case req.Put():
                item = request.over(before)
                change = Change(key, old, Record(encode(item), request.entries), item)
            case req.Merge():
                change = _merged(request, old, before, self.local)
            case req.Delete():
                change = Change(key, old, None, answer=req.Written(existed=old is not None))
            case req.Check():
                change = Change(key, old, old)
            case _:
                assert_never(request)
        if change.new is not None and (old is None or old.entries != change.new.entries):
            self._require(view, change.new.entries.keys())
        return change

    def _require(self, view: View, indexes: Collection[str]) -> None:
        for index in indexes:
            if index not in view.indexes:
                raise not_created(self.table, index)


def _updated(request: req.Update, old: Record | None, before: Item | None, local: Local) -> Change:
    after = new_item(request, before)
    kept = new_entries(request, old.entries if old is not None else {})
    draft = drafted(after)  # its size is known from its bytes, without a walk through the item
    check_item(draft, request.key, kept, limits=request.limits, local=local)
    returned = {"none": None, "old": before, "new": after}[request.returning]
    return Change(request.key, old, Record(draft.form, kept), draft, req.Written(returned))


def _merged(request: req.Merge, old: Record | None, before: Item | None, local: Local) -> Change:
    entries: Mapping[str, Key] = {} if old is None else old.entries
    draft = drafted(merged_item(request, before))
    check_item(draft, request.key, entries, limits=request.limits, local=local)
    return Change(request.key, old, Record(draft.form, entries), draft)


@lru_cache(maxsize=1024)
def _start_of(tag: str) -> bytes:
    """The start of the bytes of most items with a tag."""
    return to_json({TAG: tag})[:-1]


def _has_tag(data: bytes, tag: str) -> bool:
    return data.startswith(_start_of(tag)) or tag_of(data) == tag


def read_size(engine: Engine, request: req.Query | req.Scan, row: Row) -> int:
    """The bytes of a row that DynamoDB counts for a page: the item with its key and the index key that is read.

    Numbers, bytes and signs have other sizes there than in JSON. Up to `ESTIMATED` bytes the result is an estimate.
    """
    data, position = row[0], position_of(request, row)
    index = request.index if isinstance(request, req.Query) else None
    entries = {} if index is None or position.index_key is None else {index: position.index_key}
    small = len(data) <= ESTIMATED
    size = stored_size({} if small else decode(data), position.key, entries, engine.local)
    return size + len(data.translate(None, _SIGNS)) if small else size


def _entries(view: View, page: req.Page) -> list[Mapping[str, Key]]:
    """The index entries of the items of a page that was read in the same view."""
    records = [view.record(position.key) for position in page.positions]
    return [{} if record is None else record.entries for record in records]


def _drawn(rows: Rows, sample: req.Sample | None) -> Rows:
    """The rows of a sample; each row is drawn by itself."""
    if sample is None:
        return rows
    return _sampled(rows, sample)


def _sampled(rows: Rows, sample: req.Sample) -> Rows:
    random = Random(sample.seed)
    with closing(rows):
        for row in rows:
            if random.random() < sample.share:
                yield row


def _page(rows: Rows, request: req.Query | req.Scan, engine: Engine) -> req.Page:
    filter_, limit = request.filter, request.limit
    examine = request.examine
    passing: list[Row] = []
    seen = passing if filter_ is None else []
    read = counted = examined = 0  # bytes and number of the rows that were counted; rows
    room = engine.page_bytes  # for this many bytes at least
    last: Row | None = None
    for row in rows:
        if room <= 0:
            read += sum(read_size(engine, request, row) for row in seen[counted:])
            counted, room = len(seen), engine.page_bytes - read
            if room <= 0:
                break
        if filter_ is None:
            if len(passing) == limit:
                break
            passing.append(row)
        else:
            if examined == examine:
                break
            examined += 1
            if holds(filter_, decode(row[0])):
                if len(passing) == limit:
                    break
                passing.append(row)
            seen.append(row)
        room -= 2 * len(row[0]) + KEY_BYTES
        last = row
    else:
        last = None
    examined = examined or len(passing)
    following = None if last is None else position_of(request, last)
    if request.count:
        strangers = sum(tag_of(row[0]) not in engine.tags for row in passing)
        return req.Page(next=following, count=len(passing), strangers=strangers, examined=examined)
    texts = ItemTexts([row[0] for row in passing], decode, engine.loader)
    return req.Page(texts, Lazy(passing, partial(position_of, request)), following, len(passing), (), 0, examined)
