"""Differences between the models and the tables that exist: a `TableChange` each, with the request that makes it.

Pure: it works on the answers of GetTable. `odm.backends.bigtable.tables` makes the changes: ``create()`` those that
add something, `odm apply` the others as well. What could remove something that another program keeps is only made where
that is asked for.
"""

import re
from collections.abc import Iterator, Mapping

from odm.backends.bigtable.native import CreateTable, DeleteTable, Families, ModifyFamilies
from odm.backends.bigtable.schema import tables
from odm.protocol.admin import TableChange
from odm.schema.model import Schema


def differences(schema: Schema, found: Mapping[str, Families]) -> tuple[TableChange, ...]:
    """What the tables lack, have otherwise, and have beyond the models.

    Args:
        schema: what the models ask for.
        found: the tables that are there, of those that the models ask for, and index tables that no model has.

    Returns:
        In the order in which they are to be made; what is refused first.
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
        f"table {call.table!r} exists with the column families {has} and without {needs}, so it holds something else: "
        "choose another name, or give the store a prefix"
    )
    return TableChange("refused", what, text)


def _create(schema: Schema, what: str, call: CreateTable, found: Mapping[str, Families]) -> TableChange:
    if call.table == schema.name:
        return TableChange("create", what, f"families {' and '.join(call.families)}", call)
    later = "; stored items enter it when they are written again" if schema.name in found else ""
    return TableChange("add", what, f"table {call.table!r}{later}", call)


def _of_families(call: CreateTable, families: Families) -> Iterator[TableChange]:
    """What is to be done to the column families of a table, and which it has besides."""
    for name, versions in call.families.items():
        what, rule = f"family {name!r} of table {call.table!r}", f"maxversions={versions}"
        if name not in families:
            yield TableChange("add", what, rule, ModifyFamilies(call.table, create={name: versions}))
        elif families[name] != rule:
            yield _other_rule(what, families[name], ModifyFamilies(call.table, update={name: versions}))
    for name in sorted(families.keys() - call.families.keys()):
        yield TableChange("extra", f"family {name!r} of table {call.table!r}", "no model has it; it is left alone")


def _other_rule(family: str, rule: str, call: ModifyFamilies) -> TableChange:
    """A family that keeps cells otherwise: it may be another program's too, so it is changed only on demand."""
    if _deletes_newest(rule):
        text = "Bigtable deletes what odm stores here when it is so old; odm apply --drop sets maxversions=1"
        return TableChange("problem", family, f"{rule}: {text}", call)
    text = (
        "odm reads the newest value only, and leaves the family alone; odm apply --drop sets maxversions=1, and "
        "Bigtable then deletes all older values, also those of other programs"
    )
    return TableChange("extra", f"older values in {family}", f"{rule}; {text}", call)


def _deletes_newest(rule: str) -> bool:
    """Whether a rule, in the language of ``cbt``, deletes the newest cell of a column by its age.

    An intersection deletes what all of its rules delete, a union what one of them does, and a number of versions never
    deletes the newest.
    """
    left = re.sub(r"maxage=[^ )]+", "1", re.sub(r"maxversions=\d+|never", "0", rule))
    while (inner := re.search(r"\(([^()]*)\)", left)) is not None:
        holds = all if "&&" in inner[1] else any
        said = holds(part == "1" for part in re.split(r" && | \|\| ", inner[1]))
        left = f"{left[: inner.start()]}{int(said)}{left[inner.end() :]}"
    return left == "1"


def _extra(schema: Schema, name: str) -> TableChange:
    index = name.removeprefix(f"{schema.name}.")
    return TableChange("extra", f"index {index!r}", f"no model has it; table {name!r} takes room", DeleteTable(name))
