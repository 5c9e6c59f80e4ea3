"""The emulator answers as Google's Go emulator does: random filters, mutations and reads of both, by gRPC.

The Go emulator differs from production in ways that docs/bigtable_emulator.md lists; these calls leave them out:

* It counts the cells of a row in a random order of families. Filters that count have one family here.
* It passes everything through ``sink`` and ``value_bitmask_filter``, and chooses samples at random.
* It applies the mutations before one that fails. Mutations are valid here; test_limits.py has the others.
* It sorts more than 12 cells with one timestamp in any order. They are equal here: no part of an interleave strips.
* It removes labels where it strips values, and a second label replaces the first one, which is refused here.
* It finds nothing in a family that the table lacks, which is refused here.
* Its status codes of refused calls are others.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import grpc
import pytest

from odm.backends.bigtable.emulator import Emulator
from tests.backends.bigtable.emulator.raw import INSTANCE, Raw, rows_of, set_cell
from tests.effort import times

pytestmark = pytest.mark.slow

STEPS: Final = times(400, 8_000)

KEYS: Final = [b"a", b"a\0", b"ab", b"b#1", b"b#2", b"c\xff", b"\xc3\xa9"]
FAMILIES: Final = ["d", "dd", "e"]
QUALIFIERS: Final = [b"", b"a", b"a\0", b"ab", b"b", b"n\n", b"\xc3\xa9", b"\xff"]
VALUES: Final = [b"", b"\0", b"a", b"ab", b"abc\n", b"\xc3\xa9", b"\xff\xff", b"\0" * 7 + b"\5"]
PATTERNS: Final = [b"a", b"a.*", b".*", b"\\C*", b"[ab]+", b"a|b", b"(?s).*", b".", b"\xc3\xa9", b"\\xff", b"a{1,2}b?"]
PATTERNS_OF_FAMILIES: Final = ["d", "d.*", "d|e", "[^d]", "[x]"]
STAMPS: Final = [0, 1000, 2000, 3000, 5_000_000]
LATER: Final = 4_000_000_000_000_000
"""A timestamp in the future: both emulators keep it in a read-modify-write."""


class Calls:
    """Makes random calls of a table."""

    def __init__(self, random: Random, table: str) -> None:
        self.random = random
        self.table = table

    def filter(self, depth: int, *, apart: bool = False) -> dict[str, Any]:
        """A random filter; ``apart``: it is a part of an interleave."""
        pick, chance = self.random.choice, self.random.random()
        if depth > 1 and chance < 0.6:
            apart = apart or 0.2 <= chance < 0.4
            parts = [self.filter(depth - 1, apart=apart) for _ in range(self.random.randint(2, 3))]
            if chance < 0.2:
                return {"chain": {"filters": parts}}
            if chance < 0.4:
                return {"interleave": {"filters": parts}}
            names = ("predicate_filter", "true_filter", "false_filter")
            shown = dict(zip(names, parts, strict=False))
            if self.random.random() < 0.2 and len(parts) == 2:
                shown["false_filter"] = shown.pop("true_filter")
            return {"condition": shown}
        family = pick(FAMILIES)
        counted = pick(["cells_per_row_limit_filter", "cells_per_row_offset_filter"])
        count = {counted: self.random.randint(1, 4)}
        return pick(
            [
                {"pass_all_filter": True},
                {"block_all_filter": True},
                {"pass_all_filter": True} if apart else {"strip_value_transformer": True},
                {"row_key_regex_filter": pick([*PATTERNS, b"b#.", b"\\C+"])},
                {"family_name_regex_filter": pick(PATTERNS_OF_FAMILIES)},
                {"column_qualifier_regex_filter": pick([*PATTERNS, b"", b"n\\n"])},
                {"value_regex_filter": pick([*PATTERNS, b""])},
                {"cells_per_column_limit_filter": self.random.randint(1, 3)},
                {"chain": {"filters": [{"family_name_regex_filter": family}, count]}},
                {"column_range_filter": {"family_name": family, **self.span("qualifier", QUALIFIERS)}},
                {"value_range_filter": self.span("value", VALUES)},
                {"timestamp_range_filter": self.times()},
            ]
        )

    def span(self, what: str, values: list[bytes]) -> dict[str, Any]:
        low, high = sorted(self.random.choices(values, k=2))
        bounds = (("start", low), ("end", high))
        made = {}
        for end, value in bounds:
            if self.random.random() < 0.8:
                made[f"{end}_{what}_{self.random.choice(['open', 'closed'])}"] = value
        return made

    def times(self) -> dict[str, int]:
        start, end = sorted(self.random.sample([*STAMPS, LATER], 2))
        return {
            "start_timestamp_micros": start,
            "end_timestamp_micros": 0 if self.random.random() < 0.2 else end,
        }

    def mutation(self) -> dict[str, Any]:
        pick, chance = self.random.choice, self.random.random()
        family, qualifier = pick(FAMILIES), pick(QUALIFIERS)
        if chance < 0.05:
            return {"delete_from_row": {}}
        if chance < 0.1:
            return {"delete_from_family": {"family_name": family}}
        if chance < 0.25:
            deletion: dict[str, Any] = {"family_name": family, "column_qualifier": qualifier}
            if chance < 0.18:
                deletion["time_range"] = self.times()
            return {"delete_from_column": deletion}
        if chance < 0.35:
            by = {"int_value": self.random.randint(-(2**40), 2**40)}
            column = {"raw_value": qualifier}
            place = {"family_name": "s", "column_qualifier": column}
            return {"add_to_cell": place | {"timestamp": {"raw_timestamp_micros": pick(STAMPS[:3])}, "input": by}}
        return set_cell(family, qualifier, pick(VALUES), pick(STAMPS))

    def mutations(self, least: int = 1) -> list[dict[str, Any]]:
        return [self.mutation() for _ in range(self.random.randint(least, 5))]

    def call(self) -> tuple[str, dict[str, Any]]:
        pick, chance = self.random.choice, self.random.random()
        table: dict[str, Any] = {"table_name": self.table}
        if chance < 0.45:
            return "ReadRows", table | self.read()
        if chance < 0.65:
            return "MutateRow", table | {"row_key": pick(KEYS), "mutations": self.mutations()}
        if chance < 0.75:
            entries = [{"row_key": pick(KEYS), "mutations": self.mutations()} for _ in range(3)]
            return "MutateRows", table | {"entries": entries}
        if chance < 0.8:
            return "ReadModifyWriteRow", table | {"row_key": pick(KEYS), "rules": self.rules()}
        made = table | {"row_key": pick(KEYS), "true_mutations": self.mutations(), "false_mutations": self.mutations(0)}
        if chance < 0.97:
            made["predicate_filter"] = self.filter(4)
        return "CheckAndMutateRow", made

    def rules(self) -> list[dict[str, Any]]:
        place = {"family_name": "r", "column_qualifier": b"n"}
        rules: list[dict[str, Any]] = [place | {"increment_amount": self.random.randint(-9, 9)}]
        if self.random.random() < 0.5:
            rules.append({"family_name": "r", "column_qualifier": b"t", "append_value": self.random.choice(VALUES)})
        return rules

    def read(self) -> dict[str, Any]:
        made: dict[str, Any] = {"rows_limit": self.random.choice([0, 0, 1, 2])}
        rows: dict[str, Any] = {}
        if self.random.random() < 0.4:
            rows["row_keys"] = self.random.choices(KEYS, k=self.random.randint(1, 3))
        if self.random.random() < 0.5:
            rows["row_ranges"] = [self.span("key", KEYS) for _ in range(self.random.randint(1, 2))]
        if rows:
            made["rows"] = rows
        if self.random.random() < 0.3:
            made["reversed"] = True
        if self.random.random() < 0.9:
            made["filter"] = self.filter(4)
        return made


def outcome(raw: Raw, method: str, request: dict[str, Any]) -> Any:
    """What a call returns, in a form to compare."""
    try:
        answer = raw.call(method, **request)
    except grpc.RpcError:
        return "refused"
    if method == "ReadRows":
        return [(key, cells) for key, cells in rows_of(answer) if cells]
    if method == "MutateRows":
        return [one.status.code for part in answer for one in part.entries]
    return answer.SerializeToString(deterministic=True)


def table_of(raw: Raw, name: str) -> str:
    """A new table with families in the order of their names, which is that of their cells on both emulators."""
    made = raw.create(name, *FAMILIES, "r")
    number: dict[str, Any] = {"int64_type": {"encoding": {"big_endian_bytes": {}}}}
    raw.family(made, "s", value_type={"aggregate_type": {"input_type": number, "sum": {}}})
    later = [set_cell("r", b"n", b"\0" * 8, LATER), set_cell("r", b"t", b"", LATER)]
    for key in KEYS:
        raw.call("MutateRow", table_name=made, row_key=key, mutations=later)
    return made


@pytest.fixture(scope="module")
def pair(google_emulator: str) -> Iterator[tuple[Raw, Raw]]:
    with Emulator() as emulator:
        own, other = Raw(emulator.address), Raw(google_emulator)
        yield own, other
        own.close()
        other.close()


@pytest.mark.parametrize("seed", range(4))
def test_random_calls_have_the_same_answers(pair: tuple[Raw, Raw], seed: int) -> None:
    names = {table_of(raw, f"random{seed}") for raw in pair}
    calls = Calls(Random(seed), names.pop())
    assert not names
    refused = 0
    for step in range(STEPS // 4):
        method, request = calls.call()
        if method == "CheckAndMutateRow" and step % 7 == 0:
            request = {**request, "true_mutations": request["false_mutations"] or request["true_mutations"]}
        mine, theirs = (outcome(raw, method, request) for raw in pair)
        assert mine == theirs, (step, method, request)
        refused += mine == "refused"
        if any("delete_from_row" in str(part) or "'r'" in str(part) for part in request.values()):
            _restore(pair, calls.table)
    assert refused < STEPS // 40
    for raw in pair:
        raw.call("DeleteTable", name=f"{INSTANCE}/tables/random{seed}")


def _restore(pair: tuple[Raw, Raw], table: str) -> None:
    """Make the cells for a read-modify-write again, where a row was deleted."""
    for key in KEYS:
        for raw in pair:
            chosen = {"row_keys": [key]}
            wanted = {"family_name_regex_filter": "r"}
            if not raw.rows(table, rows=chosen, filter=wanted):
                later = [set_cell("r", b"n", b"\0" * 8, LATER), set_cell("r", b"t", b"", LATER)]
                raw.call("MutateRow", table_name=table, row_key=key, mutations=later)
