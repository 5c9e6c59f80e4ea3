"""Garbage collection and timestamps, by the emulator's clock."""

from typing import Any

from odm.backends.bigtable.emulator import Emulator
from odm.testing import Clock
from tests.backends.bigtable.emulator.raw import INSTANCE, Raw, set_cell

AGE = {"max_age": {"seconds": 60}}
TWO = {"max_num_versions": 2}


def stamps(raw: Raw, table: str, family: str) -> list[int]:
    wanted = {"family_name_regex_filter": family}
    return [cell[2] for _, cells in raw.rows(table, filter=wanted) for cell in cells]


def made(raw: Raw, now: int, **rules: Any) -> str:
    """A table with cells of the last five half minutes in each family."""
    families = {name: {"gc_rule": rule} for name, rule in rules.items()}
    table: str = raw.call("CreateTable", parent=INSTANCE, table_id="g", table={"column_families": families}).name
    times = [now - 30_000_000 * number for number in range(5)]
    cells = [set_cell(family, b"a", b"", at) for family in rules for at in times]
    raw.call("MutateRow", table_name=table, row_key=b"k", mutations=cells)
    return table


def test_each_kind_of_rule(raw: Raw, running: Emulator, clock: Clock) -> None:
    """Also of rules that CreateTable gives; and of an intersection."""
    now = int(clock() * 1_000_000)
    both, any_of = {"intersection": {"rules": [AGE, TWO]}}, {"union": {"rules": [AGE, TWO]}}
    table = made(raw, now, age=AGE, two=TWO, both=both, any=any_of, never={})
    running.collect_garbage()
    kept = {name: len(stamps(raw, table, name)) for name in ("age", "two", "both", "any", "never")}
    assert kept == {"age": 3, "two": 2, "both": 3, "any": 2, "never": 5}


def test_it_happens_when_a_second_has_passed(raw: Raw, clock: Clock) -> None:
    table = made(raw, int(clock() * 1_000_000), two=TWO, age=AGE)
    assert len(stamps(raw, table, "two")) == 5
    clock.advance(0.9)
    assert len(stamps(raw, table, "two")) == 5
    clock.advance(0.2)
    assert len(stamps(raw, table, "two")) == 2
    assert len(stamps(raw, table, "age")) == 2
    clock.advance(60)
    assert stamps(raw, table, "age") == []
    assert len(stamps(raw, table, "two")) == 2


def test_a_row_of_which_nothing_is_left_is_gone(raw: Raw, running: Emulator, clock: Clock) -> None:
    table = made(raw, int(clock() * 1_000_000), age=AGE)
    clock.advance(1000)
    running.collect_garbage()
    assert raw.rows(table) == []


def test_cells_without_a_timestamp_get_the_time_of_the_clock(raw: Raw, table: str, clock: Clock) -> None:
    clock.advance(0.0015)
    raw.call("MutateRow", table_name=table, row_key=b"k", mutations=[set_cell("d", b"a", b"", -1)])
    now = int(clock() * 1000) * 1000
    assert stamps(raw, table, "d") == [now]
    rule = {"family_name": "d", "column_qualifier": b"a", "append_value": b"x"}
    answer = raw.call("ReadModifyWriteRow", table_name=table, row_key=b"k", rules=[rule])
    (cell,) = answer.row.families[0].columns[0].cells
    assert (cell.timestamp_micros, cell.value) == (now, b"x")


def test_a_table_in_microseconds(raw: Raw, clock: Clock) -> None:
    table = raw.create("micros", "d", granularity="MICROS")
    raw.call("MutateRow", table_name=table, row_key=b"k", mutations=[set_cell("d", b"a", b"", 1)])
    assert stamps(raw, table, "d") == [1]
    assert raw.call("GetTable", name=table).granularity == 2
