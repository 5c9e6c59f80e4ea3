"""Items of described tables: to which entity attributes belong, and what a filter can ask of DynamoDB."""

from typing import Annotated, Any

import pytest

from odm import AccessPattern, BadValue, Entity, PrimaryKey, Store, Stored, Table, field
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.items.described import WriteConditions, reading_filter
from odm.backends.dynamodb.items.layout import layout_of
from odm.expressions.nodes import And, Compare, Condition, Const, Contains, Exists, Missing, Not, Or, Path
from odm.schema.entity import Key
from odm.testing.suite.collections import NEWEST, code
from odm.testing.suite.described import locks

tagged = Table("tagged", keys=("PK", "SK"), key_style="verbatim", tag="kind")
plain = Table("plain", keys=("PK", "SK"), index_keys={"one": ("G", "H")}, key_style="verbatim", tag=None)


class Bill(Entity, table=tagged, tag="bill", match=field("paid") == True):  # noqa: E712  # a condition
    number: str
    paid: bool = True

    primary = PrimaryKey("B#{number}", "bill")


class Shelf(Entity, table=plain):
    name: str
    room: str | None = None
    width: Annotated[int, Stored("width")] = 0

    primary = PrimaryKey("S#{name}", "shelf")
    by_room = AccessPattern("ROOM#{room}", "S#{name}", index="one")


BILLS, SHELVES = layout_of(tagged.compile()), layout_of(plain.compile())
SHELF = WriteConditions(SHELVES.described, Key("S#a", "shelf"))  # type: ignore[arg-type]
ROOM, NAME, PK = Path(("room",)), Path(("name",)), Path(("PK",))
TAG = Path(("_t",))


def attributes(**values: Any) -> dict[str, Any]:
    return {name: {"BOOL": value} if isinstance(value, bool) else {"S": value} for name, value in values.items()}


def test_an_item_is_of_the_entity_of_its_tag_if_it_fits_match() -> None:
    keys = {"PK": "B#1", "SK": "bill"}
    known = BILLS.item(attributes(**keys, kind="bill", paid=True))
    assert dict(known) == {"_t": "bill", "number": "1", "paid": True}
    unpaid = BILLS.item(attributes(**keys, kind="bill", paid=False))
    assert "_t" not in unpaid
    assert BILLS.item(attributes(**keys, kind="receipt"))["_t"] == "receipt"
    assert "_t" not in BILLS.item(attributes(**keys))


def test_an_item_is_of_the_entity_whose_keys_have_its_form() -> None:
    shelf = SHELVES.item(attributes(PK="S#a", SK="shelf", G="ROOM#x", H="S#a", other="o"))
    assert dict(shelf) == {"_t": "Shelf", "name": "a", "room": "x", "other": "o"}
    assert "_t" not in SHELVES.item(attributes(PK="S#a", SK="other"))


@pytest.mark.parametrize(
    ("condition", "translated"),
    [
        (Compare("=", ROOM, Const("x")), Compare("=", Path(("G",)), Const("ROOM#x"))),
        (Missing(ROOM), Missing(Path(("G",)))),
        (Compare("=", NAME, Const("a")), Exists(PK)),
        (Compare("=", NAME, Const("b")), And((Exists(PK), Missing(PK)))),
        (Compare("<>", NAME, Const("b")), Or((Exists(PK), Missing(PK)))),
        (Not(Exists(TAG)), Not(Exists(PK))),
        (Compare("=", TAG, Const("Shelf")), Exists(PK)),
        (Compare("=", TAG, Const("Book")), And((Exists(PK), Missing(PK)))),
    ],
    ids=str,
)
def test_conditions_of_a_write_ask_for_attributes(condition: Condition, translated: Condition) -> None:
    assert SHELF.translated(condition) == translated


def test_a_part_of_an_index_key_can_only_be_compared_for_equality() -> None:
    with pytest.raises(BadValue, match=r"compare it for equality, or store it as an attribute too"):
        SHELF.translated(Contains(ROOM, Const("x")))


def test_a_filter_that_dynamodb_cannot_apply_lets_more_items_through() -> None:
    wide = Compare(">", Path(("width",)), Const(5))
    room = Compare("=", ROOM, Const("x"))
    assert SHELVES.described is not None
    for condition, expected in [
        (wide, (wide, True)),
        (And((wide, room)), (wide, False)),
        (Or((wide, room)), (None, False)),
        (Not(room), (None, False)),
        (Not(wide), (Not(wide), True)),
    ]:
        assert reading_filter(SHELVES.described, condition, ()) == expected
    assert reading_filter(SHELVES.described, wide, ("width",)) == (None, False)


def test_a_bounded_collection_is_one_range_read_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    with Store(code, DynamoDB(region="eu-west-1")) as db:
        native = str(db.explain(NEWEST.limit(11)).native)
    assert "KeyConditionExpression='#0 = :0 AND #1 BETWEEN :1 AND :2'" in native
    assert "':1': {'S': 'ISSUE#'}, ':2': {'S': 'REPO'}" in native
    assert "ScanIndexForward=False" in native
    assert "Limit=11" in native


def test_a_write_asks_that_its_item_fits_no_other_entity() -> None:
    described = layout_of(locks.compile()).described
    assert described is not None
    wanted = WriteConditions(described, Key("a", "")).translated(Compare("=", TAG, Const("Lock")))
    info, digest = Exists(Path(("Info",))), Exists(Path(("Digest",)))
    assert wanted == And((Exists(Path(("LockID",))), info, Not(digest)))


def test_an_item_of_two_entities_has_the_names_of_both() -> None:
    item = layout_of(locks.compile()).item(attributes(LockID="a", Info="i", Digest="d"))
    assert item == {"_t": "Lock and State", "LockID": "a", "Info": "i", "Digest": "d"}
