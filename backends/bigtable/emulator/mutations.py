"""Writes of one row: all mutations are checked first, so that none fails after another was made."""

from collections.abc import Sequence
from typing import Any, Final

from odm.backends.bigtable.emulator import limits
from odm.backends.bigtable.emulator.families import NUMBER, FamilySettings, no_sketches, number, written
from odm.backends.bigtable.emulator.refusals import invalid
from odm.backends.bigtable.emulator.rows import Row, Version
from odm.backends.bigtable.emulator.tables import Table

SERVER_TIME: Final = -1
"""The timestamp of a cell that gets the server's time."""

_CLIENT_MADE: Final = 2
"""google.bigtable.v2, Mutation.TimestampOrigin.CLIENT_AUTO_GENERATED."""


def check(table: Table, mutations: Sequence[Any]) -> None:
    """Refuse what cannot be applied to a row. Raises `Refused`."""
    for one in mutations:
        kind = one.WhichOneof("mutation")
        if kind == "set_cell":
            _check_set(table, one)
        elif kind in ("add_to_cell", "merge_to_cell"):
            _check_addition(table, getattr(one, kind), kind)
        elif kind == "delete_from_column":
            _check_deletion(table, one.delete_from_column)
        elif kind == "delete_from_family":
            table.family(one.delete_from_family.family_name)
        elif kind != "delete_from_row":
            raise invalid("A mutation must set what it does")


def apply(table: Table, key: bytes, mutations: Sequence[Any]) -> None:
    """Apply mutations that were checked to a row. The caller saves it."""
    if not mutations:
        return
    row, now = table.row(key), table.now()
    for one in mutations:
        kind = one.WhichOneof("mutation")
        if kind == "set_cell":
            cell = one.set_cell
            family = table.families[cell.family_name]
            version = Version(_time_of(table, one, now), cell.value)
            row.set(cell.family_name, cell.column_qualifier, version, family.join)
        elif kind in ("add_to_cell", "merge_to_cell"):
            _add(row, getattr(one, kind), table)
        elif kind == "delete_from_column":
            _delete(row, one.delete_from_column)
        elif kind == "delete_from_family":
            row.families.pop(one.delete_from_family.family_name, None)
        else:
            row.families.clear()
    table.put(key, row)
    if table.streams:
        table.log.wrote(key, [_timed(one, now) for one in mutations], int(table.clock() * 1_000_000))


def modify(table: Table, key: bytes, rules: Sequence[Any]) -> Row:
    """Read, modify and write cells. Returns the new cells. The caller saves the row. Raises `Refused`."""
    fresh: dict[tuple[str, bytes], Version] = {}
    old, now = table.row(key), table.now()
    for rule in rules:
        place = rule.family_name, rule.column_qualifier
        if table.family(rule.family_name).aggregate is not None:
            raise invalid(f"ReadModifyWriteRow cannot change aggregate family {rule.family_name!r}")
        limits.check_qualifier(rule.column_qualifier)
        held = old.versions(*place)
        last = fresh.get(place) or (held[0] if held else None)
        value = _modified(None if last is None else last.value, rule)
        limits.check_value(value)
        fresh[place] = Version(now if last is None else max(now, last.timestamp), value)
    made = Row()
    for (family, qualifier), version in fresh.items():
        made.set(family, qualifier, version)
        old.set(family, qualifier, version)
    table.put(key, old)
    if table.streams:
        table.log.wrote(key, [_set(*place, version) for place, version in fresh.items()], now)
    return made


def _check_set(table: Table, mutation: Any) -> None:
    cell = mutation.set_cell
    family = table.family(cell.family_name)
    if family.aggregate is not None:
        raise invalid(f"SetCell cannot be used in aggregate family {cell.family_name!r}: use AddToCell or MergeToCell")
    limits.check_qualifier(cell.column_qualifier)
    limits.check_value(cell.value)
    if cell.timestamp_micros != SERVER_TIME and mutation.timestamp_origin != _CLIENT_MADE:
        limits.check_time(cell.timestamp_micros, table.unit)


def _check_addition(table: Table, addition: Any, kind: str) -> None:
    name = addition.family_name
    family = table.family(name)
    if family.aggregate is None:
        raise invalid(f"{kind} needs an aggregate family, and {name!r} is not one")
    if family.join is None:
        raise no_sketches(name)
    if addition.column_qualifier.WhichOneof("kind") not in ("raw_value", None):
        raise invalid(f"{kind}: column_qualifier must be a raw_value")
    limits.check_qualifier(addition.column_qualifier.raw_value)
    if addition.timestamp.WhichOneof("kind") != "raw_timestamp_micros":
        raise invalid(f"{kind}: timestamp must be a raw_timestamp_micros")
    limits.check_time(addition.timestamp.raw_timestamp_micros, table.unit)
    value = addition.input
    wanted = "int_value" if kind == "add_to_cell" else "raw_value"
    if value.WhichOneof("kind") != wanted:
        raise invalid(f"{kind}: input must be an {wanted}")
    if wanted == "raw_value" and len(value.raw_value) != NUMBER:
        raise invalid(f"{kind}: input must have {NUMBER} bytes, and has {len(value.raw_value)}")


def _check_deletion(table: Table, deletion: Any) -> None:
    table.family(deletion.family_name)
    if deletion.HasField("time_range"):
        start, end = deletion.time_range.start_timestamp_micros, deletion.time_range.end_timestamp_micros
        limits.check_time(start, table.unit)
        limits.check_time(end, table.unit)
        if end and start >= end:
            raise invalid(f"DeleteFromColumn: [{start}, {end}) is not a range of timestamps")


def _time_of(table: Table, mutation: Any, now: int) -> int:
    micros: int = mutation.set_cell.timestamp_micros
    if micros == SERVER_TIME:
        return now
    return micros - micros % table.unit if mutation.timestamp_origin == _CLIENT_MADE else micros


def _add(row: Row, addition: Any, table: Table) -> None:
    family: FamilySettings = table.families[addition.family_name]
    by = addition.input
    value = written(by.int_value) if by.WhichOneof("kind") == "int_value" else by.raw_value
    version = Version(addition.timestamp.raw_timestamp_micros, value)
    row.set(addition.family_name, addition.column_qualifier.raw_value, version, family.join)


def _delete(row: Row, deletion: Any) -> None:
    place = deletion.family_name, deletion.column_qualifier
    if not deletion.HasField("time_range"):
        row.keep(*place, [])
        return
    start = deletion.time_range.start_timestamp_micros
    end = deletion.time_range.end_timestamp_micros or limits.MAX_TIME + 1
    row.keep(*place, [one for one in row.versions(*place) if not start <= one.timestamp < end])


def _modified(value: bytes | None, rule: Any) -> bytes:
    kind = rule.WhichOneof("rule")
    if kind == "append_value":
        return (value or b"") + bytes(rule.append_value)
    if kind != "increment_amount":
        raise invalid("A rule must set append_value or increment_amount")
    if value is not None and len(value) != NUMBER:
        raise invalid(f"Cannot increment a cell that has {len(value)} bytes, and not {NUMBER}")
    return written((0 if value is None else number(value)) + rule.increment_amount)


def _timed(mutation: Any, now: int) -> Any:
    """A mutation as the change stream has it: with the time that the server gave to its cell."""
    if mutation.WhichOneof("mutation") != "set_cell" or mutation.set_cell.timestamp_micros != SERVER_TIME:
        return mutation
    made = type(mutation)()
    made.CopyFrom(mutation)
    made.set_cell.timestamp_micros = now
    return made


def _set(family: str, qualifier: bytes, version: Version) -> Any:
    from google.cloud.bigtable_v2 import types

    made = types.Mutation.pb()()
    made.set_cell.family_name, made.set_cell.column_qualifier = family, qualifier
    made.set_cell.timestamp_micros, made.set_cell.value = version
    return made
