"""ProjectionExpressions: what docs/dynamodb_requests.md (see `test_golden`) does not show."""

import pytest

from odm import Unsupported
from odm.backends.dynamodb.expressions import Expressions, projected, projection
from odm.backends.dynamodb.items.layout import layout_of
from odm.backends.dynamodb.requests import steps_of
from odm.expressions.nodes import Path
from odm.protocol.reading import Only, Partitions
from odm.protocol.requests import Scan
from odm.testing.reading import Meter, metering
from odm.testing.suite.described import digests, existing, visits

LAYOUT = layout_of(metering.compile())


def names(only: Only) -> set[str]:
    """The paths of a projection, with the names in place of the placeholders."""
    found = projected(LAYOUT, only)
    aliases = found["ExpressionAttributeNames"]
    return {".".join(aliases[alias] for alias in path.split(".")) for path in found["ProjectionExpression"].split(", ")}


def test_members_have_a_path_of_their_own() -> None:
    only = Only("Meter", (Path(("_t",)), Path(("r", "0015")), Path(("deep", "a", "b.c")), Path(("note",))))
    assert names(only) == {"pk", "sk", "_t", "r.0015", "deep.a.b.c", "note"}


def test_no_path_contains_another() -> None:
    only = Only("Meter", (Path(("pk", "x")), Path(("note",)), Path(("note",))))
    assert names(only) == {"pk", "sk", "note"}


def test_the_core_drops_paths_inside_others() -> None:
    from odm.procedures.context import Context
    from odm.procedures.reading.partial import selection_of

    asked = selection_of(
        Context(metering.compile()), Meter, [Meter.readings["a"], Meter.readings, Meter.words[0]], "query"
    )
    assert asked is not None
    assert asked.only is not None
    assert [str(path) for path in asked.only.paths] == ["_t", "_v", "_ttl", "meter", "number", "r", "words"]


def test_too_many_paths_are_read_with_the_whole_item() -> None:
    many = Only("Meter", tuple(Path(("r", str(number))) for number in range(500)))
    assert projected(LAYOUT, many) == {}
    few = Only("Meter", tuple(Path(("r", str(number))) for number in range(200)))
    assert len(projected(LAYOUT, few)["ProjectionExpression"]) <= 4096


def test_an_existing_table() -> None:
    marks = tuple(Path((name,)) for name in ("_t", "_ttl"))
    visit = projection(layout_of(visits.compile()), Only("Visit", marks), None, expressions := Expressions())
    assert visit is not None
    assert set(expressions.arguments()["ExpressionAttributeNames"].values()) == {"who", "at", "expires"}
    digest = projection(layout_of(digests.compile()), Only("digest", marks), None, expressions := Expressions())
    assert digest is not None
    assert set(expressions.arguments()["ExpressionAttributeNames"].values()) == {"digest", "kind", "_ttl"}
    # of which entity an item is, match= decides by any of its attributes
    assert projection(layout_of(existing.compile()), Only("Game", marks), None, Expressions()) is None


def test_a_range_of_partitions_sends_nothing() -> None:
    steps = steps_of(LAYOUT, Scan(partitions=Partitions("a", "b")), lambda: 1)
    with pytest.raises(Unsupported, match="hashes partition keys"):
        next(steps)
