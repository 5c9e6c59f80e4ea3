"""Creates, changes and deletes the tables of a schema: one for its items, and one for each index.

Each step is derived from the existing tables. So an interrupted run can be repeated, and several programs may run this
at the same time.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from google.api_core.exceptions import AlreadyExists, NotFound

from odm.backends.bigtable.changes import differences
from odm.backends.bigtable.drop_index import drop_index
from odm.backends.bigtable.entries import is_odms
from odm.backends.bigtable.filters import First, Newest, Stripped, chain
from odm.backends.bigtable.layout import Layout, is_wide
from odm.backends.bigtable.misfits import misfit
from odm.backends.bigtable.native import ENTRIES, ReadRows, Sample, SampleRowKeys, Steps
from odm.backends.bigtable.native_admin import (
    DeleteTable,
    Families,
    GetTable,
    ListTables,
    TableInfo,
    Tables,
    UpdateTable,
)
from odm.backends.bigtable.options import NO_OPTIONS, Options
from odm.backends.bigtable.retry import Retry, answers_of, read_all, until_answered
from odm.backends.bigtable.schema import END, name_of, tables
from odm.errors import BackendError
from odm.immutable import evolve
from odm.protocol.admin import ADDITIVE, Kind, TableChange, Tell, silent
from odm.protocol.requests import TableIdentity, TableSize
from odm.schema.model import Schema

COUNTED: Final = 1000
"""The most rows that are counted for the size of a table."""


def create(schema: Schema, retry: Retry, options: Options = NO_OPTIONS) -> Steps[None]:
    """Create the tables, and add missing column families, a change stream, backups and protection to existing ones.

    It changes nothing else of existing tables. Items that were written before their model had an access pattern have no
    entries in its index table until they are written again.

    Raises:
        BackendError: a table belongs to another program.
    """
    yield from _settle(schema, ADDITIVE, retry, silent, options)


def plan(schema: Schema, retry: Retry, options: Options = NO_OPTIONS) -> Steps[tuple[TableChange, ...]]:
    """The changes that would be made to the existing tables, in order, including refused and extra ones."""
    names = yield from _names(schema, retry)
    beside = sorted(name for name in names if _could_be_index(schema, name))
    found = yield from _described((*_wanted(schema), *beside), retry)
    for name in beside:
        if name in found and not (yield from _holds_entries(schema, name, found[name].families, retry)):
            del found[name]
    return (yield from _compared(schema, found, retry, options))


def apply(schema: Schema, retry: Retry, options: Options = NO_OPTIONS, *, drop: bool, tell: Tell) -> Steps[None]:
    """Change the tables to match the models.

    Args:
        schema: the schema of the models.
        retry: how long to retry.
        options: settings of the tables that the models do not have.
        drop: also delete index tables that no model uses, and set the families' garbage collection rule to one version.
        tell: called with each change before it is made.

    Raises:
        BackendError: a change is refused, or an index table that no model uses has rows of other programs.
    """
    kinds: set[Kind] = {"create", "add", "change"}
    if drop:
        kinds |= {"extra", "problem"}
    yield from _settle(schema, kinds, retry, tell, options)


def drop(schema: Schema, retry: Retry) -> Steps[None]:
    """Delete the tables; a missing table is not an error.

    The items' table is deleted first. If an index table were deleted first, and another program created it again, it
    would lack the entries that the items list.
    """
    items, *entries = map(DeleteTable, _wanted(schema))
    yield from answers_of((items,), retry, NotFound)
    yield from answers_of(entries, retry, NotFound)


def names(schema: Schema, retry: Retry, beginning: str) -> Steps[tuple[str, ...]]:
    """The names of tables that begin with a text, without the end that `name_of` gives them."""
    end = END if schema.transactions else ""
    found = yield from _names(schema, retry)
    return tuple(name.removesuffix(end) for name in found if name.startswith(beginning) and name.endswith(end))


def identify(schema: Schema, instance: Mapping[str, str]) -> Steps[TableIdentity]:
    """The table's name and instance, which are known without a request."""
    yield from ()
    place = "Bigtable, " + ", ".join(f"{name} {value}" for name, value in instance.items())
    return TableIdentity({"backend": "bigtable", "table": schema.name, **instance}, place=place)


def measure(schema: Schema, retry: Retry, table: str = "") -> Steps[TableSize]:
    """The number of rows if there are few, else Bigtable's estimate of their bytes.

    Args:
        schema: the schema of the items' table.
        retry: how long to retry.
        table: another table than that of the items.

    Raises:
        BackendError: the table cannot be read.
    """
    table = table or schema.name
    rows = yield from read_all(ReadRows(table, limit=COUNTED, filter=chain(First(1), Stripped())), retry)
    if len(rows) < COUNTED and not is_wide(schema):
        return TableSize(len(rows))
    samples: tuple[Sample, ...] = yield from until_answered(SampleRowKeys(table), retry)
    return TableSize(None, samples[-1].offset if samples else None, exact=False)


def unaltered() -> Steps[tuple[str, ...]]:
    """Nothing: the settings of a table on Bigtable are those of the backend, and ``odm apply`` changes them."""
    yield from ()
    return ()


def _settle(schema: Schema, kinds: Collection[Kind], retry: Retry, tell: Tell, options: Options) -> Steps[None]:
    """Make the changes of these kinds; compare again if another program made changes at the same time."""
    pauses = retry.pauses()
    while True:
        if "extra" in kinds:
            found = yield from plan(schema, retry, options)
        else:
            there = yield from _described(_wanted(schema), retry)
            found = yield from _compared(schema, there, retry, options)
        _refuse(found)
        left = [change for change in found if change.kind in kinds and change.call is not None]
        for change in left:
            tell(change)
        deletions = [change.call for change in left if isinstance(change.call, DeleteTable)]
        updates = [change.call for change in left if isinstance(change.call, UpdateTable)]
        others = [change.call for change in left if not isinstance(change.call, DeleteTable | UpdateTable)]
        for deletion in deletions:
            yield from drop_index(schema, deletion.table, retry)
        yield from answers_of(deletions, retry, NotFound)
        answers = yield from answers_of(others, retry, AlreadyExists)
        for update in updates:  # one after the other: a table has one change of its settings at a time
            yield from until_answered(update, retry)
        if not any(isinstance(answer, Exception) for answer in answers):
            return
        wait = next(pauses, None)
        if wait is None:
            raise BackendError(
                f"table {schema.name!r}: another program keeps creating and deleting its tables: try again later"
            )
        yield wait


def _compared(
    schema: Schema, there: Mapping[str, TableInfo], retry: Retry, options: Options
) -> Steps[tuple[TableChange, ...]]:
    """All differences of the tables that exist; refused ones come first."""
    found = (*(yield from _beside(schema, there, retry, options)), *differences(schema, there, options))
    if schema.name not in there or any(change.kind == "refused" for change in found):
        return found
    text = yield from misfit(schema, retry)
    return found if text is None else (TableChange("refused", f"rows of table {schema.name!r}", text), *found)


def _beside(schema: Schema, there: Collection[str], retry: Retry, options: Options) -> Steps[tuple[TableChange, ...]]:
    """The change that refuses a new table with transactions next to one without, or the other way round.

    The items are probably in the other one, and a new table would look empty. Settings of the backend that say
    ``transactions=`` ask for it, to copy the items.
    """
    other = schema.name.removesuffix(END) if schema.transactions else name_of(evolve(schema, transactions=True))
    if schema.name in there or options.next_to_other or not (yield from _described((other,), retry)):
        return ()
    has, says = ("without", "True") if schema.transactions else ("with", "False")
    text = (
        f"table {schema.name!r} does not exist, but {other!r} does, which is that of models {has} transactions=True: "
        f"say Table(..., transactions={not schema.transactions}) as before, or copy its items with odm copy to "
        f"Bigtable(..., transactions={says}), which makes the new table, or give the store a prefix"
    )
    return (TableChange("refused", f"table {schema.name!r}", text),)


def _refuse(found: Iterable[TableChange]) -> None:
    """Raise an error for the first change that cannot be made."""
    for change in found:
        if change.kind == "refused":
            raise BackendError(change.text)


def _wanted(schema: Schema) -> list[str]:
    """The names of the schema's tables; the items' table is the first."""
    return [call.table for call in tables(schema)]


def _described(names: Iterable[str], retry: Retry) -> Steps[dict[str, TableInfo]]:
    """The tables that exist, by table name."""
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
    """Whether a table could belong to an index that no model uses.

    A name with another dot is excluded: ``shop.eu.by_day`` may belong to an index of a table ``shop.eu``.
    """
    head, dot, index = name.partition(f"{schema.name}.")
    return not head and bool(dot) and "." not in index and name not in _wanted(schema)


def _holds_entries(schema: Schema, name: str, families: Families, retry: Retry) -> Steps[bool]:
    """Whether a table holds index entries, judged by its families and its first row."""
    if families.keys() != {ENTRIES}:
        return False
    rows = yield from read_all(ReadRows(name, limit=1, filter=Newest()), retry)
    return all(is_odms(row, Layout.of(schema)) for row in rows)
