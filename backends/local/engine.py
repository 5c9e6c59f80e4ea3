"""The semantics of the bundled engine: answers each operation of the IR on a `Storage`.

Every write reads the record, judges, builds the new record, and only then changes the storage: no step that can fail
comes after the first change. A page ends where a cloud's would, after about a megabyte read, so that a long query
streams; whether something follows is known exactly, because one row more is looked at.
"""

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any, Final, assert_never

from attrs import frozen

from odm.backends.local.codec import decode, encode
from odm.backends.local.storage import Record, Rows, Storage, View, not_created
from odm.expressions.evaluate import apply, holds
from odm.expressions.nodes import Item
from odm.operations.ir import (
    BatchGet,
    BatchWrite,
    CreateTables,
    Delete,
    DropTables,
    Get,
    Key,
    Page,
    Position,
    Put,
    Query,
    Refused,
    Request,
    Scan,
    Update,
    Written,
)
from odm.operations.limits import check_item

PAGE_BYTES: Final = 1 << 20
"""A page ends when this much was read, as on DynamoDB."""

CHUNK: Final = 500
"""So many operations of a batch become durable in one step."""


@frozen
class Engine:
    """Performs requests on one table.

    Attributes:
        table: its name, for messages.
        indexes: the names of the indexes that the schema has.
        storage: where the table is.
        page_bytes: a page ends when so much was read.
    """

    table: str
    indexes: Collection[str]
    storage: Storage
    page_bytes: int = PAGE_BYTES

    def perform(self, request: Request) -> Any:
        """The response that the request's docstring names.

        Raises:
            BackendError: the table or an index was not created, or the storage failed.
            BadValue: an action of an update does not fit the stored item, or makes it too large.
        """
        match request:
            case Get(key):
                with self.storage.reading() as view:
                    data = view.get(key)
                return None if data is None else decode(data)
            case BatchGet(keys):
                with self.storage.reading() as view:
                    found = [view.get(key) for key in keys]
                return tuple(None if data is None else decode(data) for data in found)
            case Put() | Update() | Delete():
                with self.storage.writing() as view:
                    return self._write(view, request)
            case BatchWrite(operations):
                return self._write_all(operations)
            case Query(index=index):
                with self.storage.reading() as view:
                    self._require(view, () if index is None else (index,))
                    with closing(view.rows(request)) as rows:
                        return _page(rows, request, self.page_bytes)
            case Scan(after=after):
                with self.storage.reading() as view, closing(view.scan(after and after.key)) as rows:
                    return _page(rows, request, self.page_bytes)
            case CreateTables():
                return self.storage.create(self.indexes)
            case DropTables():
                return self.storage.drop()
            case _:
                assert_never(request)

    def _write_all(self, operations: tuple[Put | Delete, ...]) -> None:
        for start in range(0, len(operations), CHUNK):
            with self.storage.writing() as view:
                for operation in operations[start : start + CHUNK]:
                    self._write(view, operation)

    def _write(self, view: View, request: Put | Update | Delete) -> Written | Refused:
        old = view.record(request.key)
        if request.condition is not None and not holds(request.condition, item := _item(old)):
            return Refused(item)
        match request:
            case Put(key, item, entries):
                self._replace(view, key, old, Record(encode(item), entries))
                return Written()
            case Update():
                return self._update(view, request, old)
            case Delete(key):
                self._replace(view, key, old, None)
                return Written(existed=old is not None)
            case _:
                assert_never(request)

    def _update(self, view: View, request: Update, old: Record | None) -> Written:
        before = _item(old)
        after = apply(request.actions, before or {})
        entries = {**(old.entries if old is not None else {}), **request.entries}
        kept = {index: index_key for index, index_key in entries.items() if index_key is not None}
        check_item(
            after, request.key, kept, limits=request.limits
        )  # only here is it known how large an update has made the item
        self._replace(view, request.key, old, Record(encode(after), kept))
        return Written({"none": None, "old": before, "new": after}[request.returning])

    def _replace(self, view: View, key: Key, old: Record | None, new: Record | None) -> None:
        """Change the record and, with it, the entries that differ."""
        before = old.entries if old is not None else {}
        now = new.entries if new is not None else {}
        if before != now:
            self._require(view, now.keys())
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


def _item(record: Record | None) -> Item | None:
    return None if record is None else decode(record.data)


def _page(rows: Rows, request: Query | Scan, page_bytes: int) -> Page:
    items: list[Item] = []
    positions: list[Position] = []
    count = read = 0
    last: Position | None = None
    for position, data in rows:
        if read >= page_bytes:
            break
        item = None if request.count and request.filter is None else decode(data)
        if request.filter is None or holds(request.filter, item):
            if count == request.limit:
                break
            count += 1
            if item is not None and not request.count:
                items.append(item)
                positions.append(position)
        read += len(data)
        last = position
    else:
        last = None
    return Page(tuple(items), tuple(positions), last, count)
