"""Writes of one row. All mutations are read and checked first, so that none fails after another was made."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from google.cloud.bigtable_v2 import types

from odm.backends.bigtable.emulator import limits
from odm.backends.bigtable.emulator.families import NUMBER, no_sketches, number, number_bytes
from odm.backends.bigtable.emulator.log import Change
from odm.backends.bigtable.emulator.refusals import invalid
from odm.backends.bigtable.emulator.rows import Row, Version
from odm.backends.bigtable.emulator.tables import Table, Writing

SERVER_TIME: Final = -1
"""The timestamp of a cell that gets the server's time."""

_CLIENT_MADE: Final = 2
"""google.bigtable.v2, Mutation.TimestampOrigin.CLIENT_AUTO_GENERATED."""


Changes: TypeAlias = list[tuple[Any, ...]]
"""What to do to a row: methods of `Row`, each with its arguments."""


def read(table: Table, mutations: Sequence[Any]) -> Changes:
    """The changes that google.bigtable.v2.Mutation messages make. Raises `Refused`."""
    now = table.now()
    return [_read(table, mutation, now) for mutation in mutations]


def apply(writing: Writing, key: bytes, changes: Changes, mutations: Sequence[Any]) -> None:
    """Change a row.

    Args:
        writing: takes the changed row.
        key: the key of the row.
        changes: the changes, as `read` returned them.
        mutations: the same as messages, for the change stream.
    """
    row, table = writing.row(key), writing.table
    for change, *arguments in changes:
        change(row, *arguments)
    if table.streams:
        streamed = [part for pair in zip(changes, mutations, strict=True) for part in _streamed(table, *pair)]
        writing.changes.append(Change(key, table.micros(), streamed))


def modify(writing: Writing, key: bytes, rules: Sequence[Any]) -> Row:
    """Read, modify and write cells. Returns the new cells. Raises `Refused`."""
    fresh: dict[tuple[str, bytes], Version] = {}
    table = writing.table
    old, now = table.rows.get(key) or Row(), table.now()
    for rule in rules:
        place = rule.family_name, rule.column_qualifier
        if table.family(rule.family_name).aggregate is not None:
            raise invalid(f"ReadModifyWriteRow cannot change aggregate family {rule.family_name!r}")
        limits.check_qualifier(rule.column_qualifier)
        held = old.versions(*place)
        last = fresh.get(place) or (held[0] if held else None)
        value = _modified(None if last is None else last[1], rule)
        limits.check_value(value)
        fresh[place] = now if last is None else max(now, last[0]), value
    before, row = Row(), writing.row(key)
    for (family, qualifier), version in fresh.items():
        before.set(family, qualifier, version)
        row.set(family, qualifier, version)
    if table.streams:
        streamed = [_cell(*place, version) for place, version in fresh.items()]
        writing.changes.append(Change(key, table.micros(), streamed))
    return before


def _read(table: Table, mutation: Any, now: int) -> tuple[Any, ...]:
    kind = mutation.WhichOneof("mutation")
    if kind == "set_cell":
        return _set(table, mutation, now)
    if kind in ("add_to_cell", "merge_to_cell"):
        return _addition(table, getattr(mutation, kind), kind)
    if kind == "delete_from_column":
        return _deletion(table, mutation.delete_from_column)
    if kind == "delete_from_family":
        name = mutation.delete_from_family.family_name
        table.family(name)
        return Row.delete_family, name
    if kind == "delete_from_row":
        return (Row.clear,)
    raise invalid("A mutation must set what it does")


def _set(table: Table, mutation: Any, now: int) -> tuple[Any, ...]:
    cell = mutation.set_cell
    name, qualifier, value = cell.family_name, cell.column_qualifier, cell.value
    if table.family(name).aggregate is not None:
        raise invalid(f"SetCell cannot be used in aggregate family {name!r}: use AddToCell or MergeToCell")
    limits.check_qualifier(qualifier)
    limits.check_value(value)
    micros = _time_of(table, mutation, now)
    limits.check_time(micros, table.unit)
    return Row.set, name, qualifier, (micros, value)


def _time_of(table: Table, mutation: Any, now: int) -> int:
    """The timestamp of a cell that is written."""
    micros: int = mutation.set_cell.timestamp_micros
    if micros == SERVER_TIME:
        return now
    return micros - micros % table.unit if mutation.timestamp_origin == _CLIENT_MADE else micros


def _addition(table: Table, addition: Any, kind: str) -> tuple[Any, ...]:
    name, qualifier = addition.family_name, addition.column_qualifier
    family = table.family(name)
    if family.aggregate is None:
        raise invalid(f"{kind} needs an aggregate family, and {name!r} is not one")
    if family.join is None:
        raise no_sketches(name)
    if qualifier.WhichOneof("kind") not in ("raw_value", None):
        raise invalid(f"{kind}: column_qualifier must be a raw_value")
    limits.check_qualifier(qualifier.raw_value)
    if addition.timestamp.WhichOneof("kind") != "raw_timestamp_micros":
        raise invalid(f"{kind}: timestamp must be a raw_timestamp_micros")
    micros = addition.timestamp.raw_timestamp_micros
    limits.check_time(micros, table.unit)
    return Row.set, name, qualifier.raw_value, (micros, _added(addition.input, kind)), family.join


def _added(value: Any, kind: str) -> bytes:
    """The number that is added, as bytes."""
    expected = "int_value" if kind == "add_to_cell" else "raw_value"
    if value.WhichOneof("kind") != expected:
        raise invalid(f"{kind}: input must be an {expected}")
    if expected == "int_value":
        return number_bytes(value.int_value)
    if len(value.raw_value) != NUMBER:
        raise invalid(f"{kind}: input must have {NUMBER} bytes, and has {len(value.raw_value)}")
    return bytes(value.raw_value)


def _deletion(table: Table, deletion: Any) -> tuple[Any, ...]:
    table.family(deletion.family_name)
    place = deletion.family_name, deletion.column_qualifier
    if not deletion.HasField("time_range"):
        return Row.delete, *place
    start, end = deletion.time_range.start_timestamp_micros, deletion.time_range.end_timestamp_micros
    limits.check_time(start, table.unit)
    limits.check_time(end, table.unit)
    if end and start >= end:
        raise invalid(f"DeleteFromColumn: [{start}, {end}) is not a range of timestamps")
    return Row.delete_between, *place, start, end or limits.NO_END


def _modified(value: bytes | None, rule: Any) -> bytes:
    kind = rule.WhichOneof("rule")
    if kind == "append_value":
        return (value or b"") + bytes(rule.append_value)
    if kind != "increment_amount":
        raise invalid("A rule must set append_value or increment_amount")
    if value is not None and len(value) != NUMBER:
        raise invalid(f"Cannot increment a cell that has {len(value)} bytes, and not {NUMBER}")
    return number_bytes((0 if value is None else number(value)) + rule.increment_amount)


def _streamed(table: Table, change: tuple[Any, ...], mutation: Any) -> Iterator[Any]:
    """A mutation as the change stream has it: cells with the timestamps that they got, and families for a row."""
    kind = mutation.WhichOneof("mutation")
    if kind == "delete_from_row":
        for family in sorted(table.families):
            copy = type(mutation)()
            copy.delete_from_family.family_name = family
            yield copy
        return
    copy = type(mutation)()
    copy.CopyFrom(mutation)
    if kind == "set_cell":
        *_, (copy.set_cell.timestamp_micros, _) = change
    yield copy


def _cell(family: str, qualifier: bytes, version: Version) -> Any:
    """The mutation that writes a cell."""
    mutation = types.Mutation.pb()()
    mutation.set_cell.family_name, mutation.set_cell.column_qualifier = family, qualifier
    mutation.set_cell.timestamp_micros, mutation.set_cell.value = version
    return mutation
