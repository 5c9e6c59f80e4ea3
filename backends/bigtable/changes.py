"""Differences between the models and the existing tables: one `TableChange` each, with the request that makes it.

No I/O: these functions compare the responses of GetTable. `odm.backends.bigtable.tables` makes the changes:
``create()`` only those that add something, `odm apply` also the others. A change that could delete data of another
program needs ``--drop``.
"""

import re
from collections.abc import Iterator, Mapping

from odm.backends.bigtable.native import CreateTable, DeleteTable, Families, ModifyFamilies
from odm.backends.bigtable.schema import tables
from odm.protocol.admin import TableChange
from odm.schema.model import Schema


def differences(schema: Schema, found: Mapping[str, Families]) -> tuple[TableChange, ...]:
    """What is missing, different or extra in the tables, compared with the models.

    Args:
        schema: the schema of the models.
        found: the column families of the existing tables, including index tables that no model uses, by table name.

    Returns:
        The changes in the order in which to make them; refused changes come first.
    """
    whats = (f"table {schema.name!r}", *(f"index {index!r}" for index in schema.indexes))
    wanted = dict(zip(whats, tables(schema), strict=True))
    there = {what: found[call.table] for what, call in wanted.items() if call.table in found}
    foreign = {what for what, families in there.items() if families and not families.keys() & wanted[what].families}
    return (
        *(_foreign(what, wanted[what], there[what]) for what in wanted if what in foreign),
        *(_create(schema, what, call, found) for what, call in wanted.items() if what not in there),
        *(
            change
            for what, families in there.items()
            if what not in foreign
            for change in _of_families(wanted[what], families)
        ),
        *(_extra(schema, name) for name in sorted(found.keys() - {call.table for call in wanted.values()})),
    )


def _foreign(what: str, call: CreateTable, families: Families) -> TableChange:
    needs, has = (" and ".join(map(repr, names)) for names in (call.families, families))
    text = (
        f"table {call.table!r} exists with the column families {has} and without {needs}, so it belongs to another "
        "program: choose another name, or give the store a prefix"
    )
    return TableChange("refused", what, text)


def _create(schema: Schema, what: str, call: CreateTable, found: Mapping[str, Families]) -> TableChange:
    if call.table == schema.name:
        return TableChange("create", what, f"families {' and '.join(call.families)}", call)
    later = "; stored items enter it when they are written again" if schema.name in found else ""
    return TableChange("add", what, f"table {call.table!r}{later}", call)


def _of_families(call: CreateTable, families: Families) -> Iterator[TableChange]:
    """The missing column families of a table, families with another garbage collection rule, and extra families."""
    for name, versions in call.families.items():
        what, rule = f"family {name!r} of table {call.table!r}", f"maxversions={versions}"
        if name not in families:
            yield TableChange("add", what, rule, ModifyFamilies(call.table, create={name: versions}))
        elif families[name] != rule:
            yield _other_rule(what, families[name], ModifyFamilies(call.table, update={name: versions}))
    for name in sorted(families.keys() - call.families.keys()):
        yield TableChange("extra", f"family {name!r} of table {call.table!r}", "no model has it; it is left alone")


def _other_rule(family: str, rule: str, call: ModifyFamilies) -> TableChange:
    """A family with another garbage collection rule; only ``--drop`` changes it, because another program may use it."""
    if _deletes_newest(rule):
        text = "Bigtable deletes the values that odm stores here by their age; odm apply --drop sets maxversions=1"
        return TableChange("problem", family, f"{rule}: {text}", call)
    text = (
        "odm reads only the newest value, and leaves the family alone; odm apply --drop sets maxversions=1, and "
        "Bigtable then deletes all older values, including those of other programs"
    )
    return TableChange("extra", f"older values in {family}", f"{rule}; {text}", call)


def _deletes_newest(rule: str) -> bool:
    """Whether a garbage collection rule, as ``cbt`` writes it, deletes the newest cell of a column by its age.

    An intersection deletes a cell if all of its rules do, a union if one of them does. A number of versions never
    deletes the newest cell.
    """
    left = re.sub(r"maxage=[^ )]+", "1", re.sub(r"maxversions=\d+|never", "0", rule))
    while (inner := re.search(r"\(([^()]*)\)", left)) is not None:
        holds = all if "&&" in inner[1] else any
        said = holds(part == "1" for part in re.split(r" && | \|\| ", inner[1]))
        left = f"{left[: inner.start()]}{int(said)}{left[inner.end() :]}"
    return left == "1"


def _extra(schema: Schema, name: str) -> TableChange:
    index = name.removeprefix(f"{schema.name}.")
    return TableChange("extra", f"index {index!r}", f"no model has it; table {name!r} takes space", DeleteTable(name))
