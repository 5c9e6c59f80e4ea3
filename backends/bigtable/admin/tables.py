"""Creates, changes and deletes the tables of a schema: one for its items, and one for each index.

What differs from the models is found without I/O, in the responses of GetTable. ``create()`` makes only the changes
that add something, `odm apply` also the others. A change that could delete data of another
program needs ``--drop``.

Each step is derived from the existing tables. So an interrupted run can be repeated, and several programs may run this
at the same time.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Final

from google.api_core.exceptions import AlreadyExists, NotFound

from odm.backends.bigtable.admin.misfits import misfit
from odm.backends.bigtable.admin.schema import END, name_of, table_of, tables
from odm.backends.bigtable.client.filters import First, Newest, Stripped, chain
from odm.backends.bigtable.client.native import (
    COUNTERS,
    ENTRIES,
    FAMILY,
    RECORD,
    ReadRows,
    Sample,
    SampleRowKeys,
    Steps,
    record_table,
)
from odm.backends.bigtable.client.native_admin import (
    NEWEST_ONLY,
    NO_OPTIONS,
    ColumnFamily,
    CreateTable,
    DeleteTable,
    Families,
    GetTable,
    ListTables,
    ModifyFamilies,
    Options,
    Settings,
    TableInfo,
    Tables,
    UpdateTable,
    days,
)
from odm.backends.bigtable.client.retry import Retry, answers_of, read_all, until_answered
from odm.backends.bigtable.index.repair import drop_index
from odm.backends.bigtable.rows.keys import RowKeys, is_odms
from odm.errors import BackendError
from odm.expressions.collection import GCRule, MaxAge, MaxVersions
from odm.immutable import evolve
from odm.protocol.admin import ADDITIVE, Kind, TableChange, Tell, silent
from odm.protocol.requests import TableIdentity, TableSize
from odm.schema.model import Schema


def differences(
    schema: Schema, existing: Mapping[str, TableInfo], options: Options = NO_OPTIONS
) -> tuple[TableChange, ...]:
    """What is missing, different or extra in the tables, compared with the models.

    Args:
        schema: the schema of the models.
        existing: the existing tables, including index tables that no model uses, by name.
        options: settings of the tables that the models do not have.

    Returns:
        The changes in the order in which to make them; refused changes come first.
    """
    indexes = (f"index {index!r}" for index in schema.indexes)
    whats = (f"table {schema.name!r}", *indexes, *(["records of transactions"] * schema.transactions))
    declared = dict(zip(whats, tables(schema, options), strict=True))
    there = {subject: existing[call.table] for subject, call in declared.items() if call.table in existing}
    has = {subject: info.families for subject, info in there.items()}
    foreign = {
        subject for subject, families in has.items() if families and not families.keys() & declared[subject].families
    }
    return (
        *(_foreign(schema, subject, declared[subject], has[subject]) for subject in declared if subject in foreign),
        *(_create(schema, subject, call, existing) for subject, call in declared.items() if subject not in there),
        *(
            change
            for subject, info in there.items()
            if subject not in foreign
            for change in (
                *_of_families(schema, declared[subject], info.families),
                *_of_settings(
                    declared[subject].table, info.settings, options if subject == whats[0] else options.of_index
                ),
            )
        ),
        *(_extra(schema, name) for name in sorted(existing.keys() - {call.table for call in declared.values()})),
    )


def _foreign(schema: Schema, subject: str, call: CreateTable, families: Families) -> TableChange:
    needs, has = (" and ".join(map(repr, names)) for names in (call.families, families))
    whose, way = table_of(schema).stranger(call.table, families)
    text = f"table {call.table!r} exists with the column families {has} and without {needs}, {whose}: {way}"
    return TableChange("refused", subject, text)


def _create(schema: Schema, subject: str, call: CreateTable, existing: Collection[str]) -> TableChange:
    if call.table == schema.name:
        *families, last = [
            name if family.gc == NEWEST_ONLY else f"{name} {family}" for name, family in call.families.items()
        ]
        parts = [f"families {', '.join(families)} and {last}", *_settings(call)]
        return TableChange("create", subject, ", ".join(parts), call)
    of_records = call.table == record_table(schema.name)
    later = "; stored items enter it when they are written again" if schema.name in existing and not of_records else ""
    return TableChange("add", subject, f"table {call.table!r}{later}", call)


def _settings(call: CreateTable) -> Iterator[str]:
    """The settings of a new table, for messages."""
    if call.settings.deletion_protection:
        yield "deletion protection"
    if call.settings.stream is not None:
        yield f"a change stream of {days(call.settings.stream)}"
    if call.settings.backups is not None:
        yield f"daily backups that are kept for {days(call.settings.backups)}"
    if call.splits:
        yield f"split at {', '.join(map(repr, call.splits))}"


def _of_settings(table: str, existing: Settings, options: Options) -> Iterator[TableChange]:
    """The settings that differ from the options; to add one is additive, to change one is not."""
    declared, has = options.deletion_protection, existing.deletion_protection
    if declared is not None and declared is not has:
        text = "off → on" if declared else "on → off"
        change = UpdateTable(table, deletion_protection=declared)
        yield TableChange("add" if declared else "change", f"deletion protection of table {table!r}", text, change)
    if options.stream not in (None, existing.stream):
        yield _kept(f"change stream of table {table!r}", existing.stream, UpdateTable(table, stream=options.stream))
    if options.backups not in (None, existing.backups):
        yield _kept(f"daily backups of table {table!r}", existing.backups, UpdateTable(table, backups=options.backups))


def _kept(subject: str, existing: timedelta | None, call: UpdateTable) -> TableChange:
    text = f"{days(existing)} → {days(call.stream or call.backups)}"
    return TableChange("add" if existing is None else "change", subject, text, call)


def _of_families(schema: Schema, call: CreateTable, families: Families) -> Iterator[TableChange]:
    """The missing column families of a table, families that differ from the models, and extra families."""
    stated = schema.families if call.table == schema.name else {}
    for name, family in call.families.items():
        subject, existing = f"family {name!r} of table {call.table!r}", families.get(name)
        change = ModifyFamilies(call.table, update={name: family})
        if existing is None:
            yield TableChange("add", subject, str(family), ModifyFamilies(call.table, create={name: family}))
        elif existing.aggregate != family.aggregate:
            yield TableChange("refused", subject, _other_type(existing, family))
        elif name not in (FAMILY, COUNTERS, ENTRIES, RECORD, *schema.families):
            continue  # a family of other programs, in which odm has single cells
        elif existing.gc != family.gc:
            by_model = stated.get(name) is not None
            yield (_stated_rule if by_model else _other_rule)(subject, existing, family, change)
    for name in sorted(families.keys() - call.families.keys()):
        yield TableChange("extra", f"family {name!r} of table {call.table!r}", "no model has it; it is left alone")


def _other_type(existing: ColumnFamily, family: ColumnFamily) -> str:
    has, needs = (f"cells of type {one.aggregate}" if one.aggregate else "plain cells" for one in (existing, family))
    return f"it has {has}, and the models need {needs}, which Bigtable cannot change: give the store a prefix"


def _stated_rule(subject: str, existing: ColumnFamily, family: ColumnFamily, call: ModifyFamilies) -> TableChange:
    """A family with another rule than the one that a model states.

    Values that Bigtable has deleted cannot be restored. So only ``--drop`` sets a rule that deletes values that the
    present rule keeps.
    """
    both = f"{existing.rule}; the models state {family.rule}"
    if deletes_more(family.gc, existing.gc):
        text = "Bigtable then deletes values that it keeps now; odm apply --drop sets it"
        return TableChange("problem", subject, f"{both}: {text}", call)
    return TableChange("change", subject, f"{both}, which deletes nothing that is kept now", call)


def _other_rule(subject: str, existing: ColumnFamily, family: ColumnFamily, call: ModifyFamilies) -> TableChange:
    """A family with another rule than odm's own; only ``--drop`` changes it, because another program may use it."""
    if existing.gc is not None and existing.gc.by_age:
        text = f"Bigtable deletes the values that odm stores here by their age; odm apply --drop sets {family.rule}"
        return TableChange("problem", subject, f"{existing.rule}: {text}", call)
    text = (
        f"odm reads only the newest value, and leaves the family alone; odm apply --drop sets {family.rule}, and "
        "Bigtable then deletes all older values, including those of other programs"
    )
    return TableChange("extra", f"older values in {subject}", f"{existing.rule}; {text}", call)


_TICK: Final = timedelta(microseconds=1)


def deletes_more(new: GCRule | None, old: GCRule | None) -> bool:
    """Whether a rule deletes a cell that another rule keeps.

    A rule answers differently only where the age of a cell, or its number of newer versions, passes a limit in it. So
    it is enough to compare the two just before and after each of these limits.
    """
    if new is None:
        return False
    limits = [part for rule in (new, old) if rule is not None for part in rule.parts]
    ages = {timedelta(), *(limit.age + _TICK for limit in limits if isinstance(limit, MaxAge))}
    versions = {1, *(limit.count + 1 for limit in limits if isinstance(limit, MaxVersions))}
    return any(
        new.collects(age, version) and not (old is not None and old.collects(age, version))
        for age in ages
        for version in versions
    )


def _extra(schema: Schema, name: str) -> TableChange:
    index = name.removeprefix(f"{schema.name}.")
    return TableChange("extra", f"index {index!r}", f"no model has it; table {name!r} takes space", DeleteTable(name))


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
    existing = yield from _described((*_wanted(schema), *beside), retry)
    for name in beside:
        if name in existing and not (yield from _holds_entries(schema, name, existing[name].families, retry)):
            del existing[name]
    return (yield from _compared(schema, existing, retry, options))


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
    existing = yield from _names(schema, retry)
    return tuple(name.removesuffix(end) for name in existing if name.startswith(beginning) and name.endswith(end))


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
    if len(rows) < COUNTED and table_of(schema).counts_items:
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
            existing = yield from plan(schema, retry, options)
        else:
            there = yield from _described(_wanted(schema), retry)
            existing = yield from _compared(schema, there, retry, options)
        _refuse(existing)
        left = [change for change in existing if change.kind in kinds and change.call is not None]
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
    existing = (*(yield from _beside(schema, there, retry, options)), *differences(schema, there, options))
    if schema.name not in there or any(change.kind == "refused" for change in existing):
        return existing
    text = yield from misfit(schema, retry)
    return existing if text is None else (TableChange("refused", f"rows of table {schema.name!r}", text), *existing)


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


def _refuse(existing: Iterable[TableChange]) -> None:
    """Raise an error for the first change that cannot be made."""
    for change in existing:
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
    return all(is_odms(row, RowKeys.of(schema)) for row in rows)
