"""Making, changing and removing the tables of a schema: its own, and one an index.

Each step is found by a look at the tables as they are, so whatever was interrupted goes on where it stopped, and
several may be at it at once.
"""

from collections.abc import Collection, Iterable

from google.api_core.exceptions import AlreadyExists, NotFound

from odm.backends.bigtable.changes import differences
from odm.backends.bigtable.drop_index import drop_index
from odm.backends.bigtable.entries import is_odms
from odm.backends.bigtable.filters import Newest
from odm.backends.bigtable.layout import Layout
from odm.backends.bigtable.native import (
    ENTRIES,
    DeleteTable,
    Families,
    GetTable,
    ListTables,
    ReadRows,
    Steps,
    Tables,
)
from odm.backends.bigtable.retry import Retry, answers_of, read_all, until_answered
from odm.backends.bigtable.schema import tables
from odm.errors import BackendError
from odm.protocol.admin import ADDITIVE, Kind, TableChange, Tell, silent
from odm.schema.model import Schema


def create(schema: Schema, retry: Retry) -> Steps[None]:
    """Make the tables, or add to existing ones the column families that they lack.

    Nothing else about existing tables is changed. Items that were written before their model had a pattern have no
    entries in its index table, and enter it when they are written again.

    Raises:
        BackendError: a table holds something else.
    """
    yield from _settle(schema, ADDITIVE, retry, silent)


def plan(schema: Schema, retry: Retry) -> Steps[tuple[TableChange, ...]]:
    """What would be done to the tables as they are now, in order; what is refused or extra as well."""
    names = yield from _names(schema, retry)
    beside = sorted(name for name in names if _could_be_index(schema, name))
    found = yield from _described((*_wanted(schema), *beside), retry)
    for name in beside:
        if name in found and not (yield from _holds_entries(schema, name, found[name], retry)):
            del found[name]
    return differences(schema, found)


def apply(schema: Schema, retry: Retry, *, drop: bool, tell: Tell) -> Steps[None]:
    """Make the tables what the models ask for.

    Args:
        schema: what they ask for.
        retry: how long to try.
        drop: remove index tables that no model has, and let families keep the newest value of a cell only.
        tell: is told of each change when it is begun.

    Raises:
        BackendError: a change is refused, or an index table that no model has holds rows of other programs.
    """
    kinds: set[Kind] = {"create", "add", "change"}
    if drop:
        kinds |= {"extra", "problem"}
    yield from _settle(schema, kinds, retry, tell)


def drop(schema: Schema, retry: Retry) -> Steps[None]:
    """Remove the tables; absent ones are no error.

    The items go first: while they are there, an index table that was made anew would lack the entries that they list.
    """
    items, *entries = map(DeleteTable, _wanted(schema))
    yield from answers_of((items,), retry, NotFound)
    yield from answers_of(entries, retry, NotFound)


def _settle(schema: Schema, kinds: Collection[Kind], retry: Retry, tell: Tell) -> Steps[None]:
    """Make the changes of these kinds; look again where somebody else was at it too."""
    pauses = retry.pauses()
    while True:
        if "extra" in kinds:
            found = yield from plan(schema, retry)
        else:
            found = differences(schema, (yield from _described(_wanted(schema), retry)))
        _refuse(found)
        left = [change for change in found if change.kind in kinds and change.call is not None]
        for change in left:
            tell(change)
        deletions = [change.call for change in left if isinstance(change.call, DeleteTable)]
        others = [change.call for change in left if not isinstance(change.call, DeleteTable)]
        for deletion in deletions:
            yield from drop_index(schema, deletion.table, retry)
        yield from answers_of(deletions, retry, NotFound)
        answers = yield from answers_of(others, retry, AlreadyExists)
        if not any(isinstance(answer, Exception) for answer in answers):
            return
        wait = next(pauses, None)
        if wait is None:
            raise BackendError(f"table {schema.name!r}: somebody else keeps making and removing it: try again later")
        yield wait


def _refuse(found: Iterable[TableChange]) -> None:
    """Raise the first of the changes that cannot be made."""
    for change in found:
        if change.kind == "refused":
            raise BackendError(change.text)


def _wanted(schema: Schema) -> list[str]:
    """The names of the schema's tables, its own first."""
    return [call.table for call in tables(schema)]


def _described(names: Iterable[str], retry: Retry) -> Steps[dict[str, Families]]:
    """The column families of those tables that exist."""
    calls = [*map(GetTable, names)]
    answers = yield from answers_of(calls, retry, NotFound)
    return {
        call.table: answer for call, answer in zip(calls, answers, strict=True) if not isinstance(answer, Exception)
    }


def _names(schema: Schema, retry: Retry) -> Steps[list[str]]:
    """The names of all tables of the instance."""
    names: list[str] = []
    page: Tables = yield from until_answered(ListTables(schema.name), retry)
    names += page.names
    while page.following:
        page = yield from until_answered(ListTables(schema.name, page.following), retry)
        names += page.names
    return names


def _could_be_index(schema: Schema, name: str) -> bool:
    """Whether a table could be one of an index that no model has.

    ``shop.eu.by_day`` could as well be of an index of a table ``shop.eu``.
    """
    head, dot, index = name.partition(f"{schema.name}.")
    return not head and bool(dot) and "." not in index and name not in _wanted(schema)


def _holds_entries(schema: Schema, name: str, families: Families, retry: Retry) -> Steps[bool]:
    """Whether a table is one of index entries, by its families and its first row."""
    if families.keys() != {ENTRIES}:
        return False
    rows = yield from read_all(ReadRows(name, limit=1, filter=Newest()), retry)
    return all(is_odms(row, Layout.of(schema)) for row in rows)
