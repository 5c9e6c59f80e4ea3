"""Differences between the models and the existing tables: one `TableChange` each, with the request that makes it.

No I/O: these functions compare the responses of GetTable. `odm.backends.bigtable.tables` makes the changes:
``create()`` only those that add something, `odm apply` also the others. A change that could delete data of another
program needs ``--drop``.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Final

from odm.backends.bigtable.native import COUNTERS, ENTRIES, FAMILY, RECORD
from odm.backends.bigtable.native_admin import (
    NEWEST_ONLY,
    ColumnFamily,
    CreateTable,
    DeleteTable,
    Families,
    ModifyFamilies,
    TableInfo,
    UpdateTable,
)
from odm.backends.bigtable.options import NO_OPTIONS, Options, Settings, days
from odm.backends.bigtable.schema import record_table, tables
from odm.expressions.collection import GCRule, MaxAge, MaxVersions
from odm.protocol.admin import TableChange
from odm.schema.model import Schema


def differences(
    schema: Schema, found: Mapping[str, TableInfo], options: Options = NO_OPTIONS
) -> tuple[TableChange, ...]:
    """What is missing, different or extra in the tables, compared with the models.

    Args:
        schema: the schema of the models.
        found: the existing tables, including index tables that no model uses, by name.
        options: settings of the tables that the models do not have.

    Returns:
        The changes in the order in which to make them; refused changes come first.
    """
    indexes = (f"index {index!r}" for index in schema.indexes)
    whats = (f"table {schema.name!r}", *indexes, *(["records of transactions"] * schema.transactions))
    wanted = dict(zip(whats, tables(schema, options), strict=True))
    there = {what: found[call.table] for what, call in wanted.items() if call.table in found}
    has = {what: info.families for what, info in there.items()}
    foreign = {what for what, families in has.items() if families and not families.keys() & wanted[what].families}
    return (
        *(_foreign(schema, what, wanted[what], has[what]) for what in wanted if what in foreign),
        *(_create(schema, what, call, found) for what, call in wanted.items() if what not in there),
        *(
            change
            for what, info in there.items()
            if what not in foreign
            for change in (
                *_of_families(schema, wanted[what], info.families),
                *_of_settings(wanted[what].table, info.settings, options if what == whats[0] else options.of_index),
            )
        ),
        *(_extra(schema, name) for name in sorted(found.keys() - {call.table for call in wanted.values()})),
    )


def _foreign(schema: Schema, what: str, call: CreateTable, families: Families) -> TableChange:
    needs, has = (" and ".join(map(repr, names)) for names in (call.families, families))
    whose, way = "so it belongs to another program", "choose another name, or give the store a prefix"
    if schema.verbatim_rows and {FAMILY, COUNTERS} <= families.keys():
        whose = "so odm made it for rows of its own"
        way = f'leave row_style="verbatim" out as before, {way}'
    elif call.table == schema.name and not schema.verbatim_rows:
        way = f'{way}; or, if its rows are those of models with row_style="verbatim", declare it'
    text = f"table {call.table!r} exists with the column families {has} and without {needs}, {whose}: {way}"
    return TableChange("refused", what, text)


def _create(schema: Schema, what: str, call: CreateTable, found: Collection[str]) -> TableChange:
    if call.table == schema.name:
        *families, last = [
            name if family.gc == NEWEST_ONLY else f"{name} {family}" for name, family in call.families.items()
        ]
        parts = [f"families {', '.join(families)} and {last}", *_settings(call)]
        return TableChange("create", what, ", ".join(parts), call)
    of_records = call.table == record_table(schema.name)
    later = "; stored items enter it when they are written again" if schema.name in found and not of_records else ""
    return TableChange("add", what, f"table {call.table!r}{later}", call)


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


def _of_settings(table: str, found: Settings, options: Options) -> Iterator[TableChange]:
    """The settings that differ from the options; to add one is additive, to change one is not."""
    wanted, has = options.deletion_protection, found.deletion_protection
    if wanted is not None and wanted is not has:
        text = "off → on" if wanted else "on → off"
        change = UpdateTable(table, deletion_protection=wanted)
        yield TableChange("add" if wanted else "change", f"deletion protection of table {table!r}", text, change)
    if options.stream not in (None, found.stream):
        yield _kept(f"change stream of table {table!r}", found.stream, UpdateTable(table, stream=options.stream))
    if options.backups not in (None, found.backups):
        yield _kept(f"daily backups of table {table!r}", found.backups, UpdateTable(table, backups=options.backups))


def _kept(what: str, found: timedelta | None, call: UpdateTable) -> TableChange:
    text = f"{days(found)} → {days(call.stream or call.backups)}"
    return TableChange("add" if found is None else "change", what, text, call)


def _of_families(schema: Schema, call: CreateTable, families: Families) -> Iterator[TableChange]:
    """The missing column families of a table, families that differ from the models, and extra families."""
    stated = schema.families if call.table == schema.name else {}
    for name, family in call.families.items():
        what, found = f"family {name!r} of table {call.table!r}", families.get(name)
        change = ModifyFamilies(call.table, update={name: family})
        if found is None:
            yield TableChange("add", what, str(family), ModifyFamilies(call.table, create={name: family}))
        elif found.aggregate != family.aggregate:
            yield TableChange("refused", what, _other_type(found, family))
        elif name not in (FAMILY, COUNTERS, ENTRIES, RECORD, *schema.families):
            continue  # a family of other programs, in which odm has single cells
        elif found.gc != family.gc:
            by_model = stated.get(name) is not None
            yield (_stated_rule if by_model else _other_rule)(what, found, family, change)
    for name in sorted(families.keys() - call.families.keys()):
        yield TableChange("extra", f"family {name!r} of table {call.table!r}", "no model has it; it is left alone")


def _other_type(found: ColumnFamily, family: ColumnFamily) -> str:
    has, needs = (f"cells of type {one.aggregate}" if one.aggregate else "plain cells" for one in (found, family))
    return f"it has {has}, and the models need {needs}, which Bigtable cannot change: give the store a prefix"


def _stated_rule(what: str, found: ColumnFamily, family: ColumnFamily, call: ModifyFamilies) -> TableChange:
    """A family with another rule than the one that a model states.

    Values that Bigtable has deleted cannot be restored. So only ``--drop`` sets a rule that deletes values that the
    present rule keeps.
    """
    both = f"{found.rule}; the models state {family.rule}"
    if deletes_more(family.gc, found.gc):
        text = "Bigtable then deletes values that it keeps now; odm apply --drop sets it"
        return TableChange("problem", what, f"{both}: {text}", call)
    return TableChange("change", what, f"{both}, which deletes nothing that is kept now", call)


def _other_rule(what: str, found: ColumnFamily, family: ColumnFamily, call: ModifyFamilies) -> TableChange:
    """A family with another rule than odm's own; only ``--drop`` changes it, because another program may use it."""
    if found.gc is not None and found.gc.by_age:
        text = f"Bigtable deletes the values that odm stores here by their age; odm apply --drop sets {family.rule}"
        return TableChange("problem", what, f"{found.rule}: {text}", call)
    text = (
        f"odm reads only the newest value, and leaves the family alone; odm apply --drop sets {family.rule}, and "
        "Bigtable then deletes all older values, including those of other programs"
    )
    return TableChange("extra", f"older values in {what}", f"{found.rule}; {text}", call)


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
