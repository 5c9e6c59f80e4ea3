"""Generated code writes the same cells for an entity as those of its item, for any values."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue, create_model

from odm import TTL, Stored
from odm.backends.bigtable.rows.codec import Form, replacement
from odm.backends.bigtable.rows.loading import write_item
from odm.codec import Draft, compile_codec
from odm.errors import BadValue
from odm.protocol.limits import item_size
from tests.backends.bigtable.test_loading import CODECS, FORM, PLAIN, Counted, entities
from tests.codec.test_texts import Other


def rows(item: Any, form: Form) -> Any:
    """The cells of an item."""
    return replacement(item, form, "k", "id1", (), 5000)


@example(Counted(text="-", moments=set()))
@example(Counted(text="", views=2**63 - 1, moments=set()))
@given(entities)
def test_a_draft_is_what_the_item_gives(entity: BaseModel) -> None:
    codec = CODECS[type(entity)]
    item = codec.encode(entity)
    for form in (PLAIN, FORM):
        draft = write_item(codec, entity, form)
        assert (draft["_t"], draft.get("_v")) == (item["_t"], None)
        assert draft == item
        assert rows(draft, form) == rows(item, form)
        assert isinstance(draft, Draft) is not (form is FORM and isinstance(entity, Counted))
        assert not isinstance(draft, Draft) or draft.most >= item_size(item)


class Expiring(BaseModel):
    name: str
    expires_at: Annotated[datetime | None, TTL] = None


def test_a_ttl_has_a_cell_of_its_own() -> None:
    codec = compile_codec(Expiring, "Expiring")
    for moment in (None, datetime(2026, 1, 2, tzinfo=UTC)):
        entity = Expiring(name="12", expires_at=moment)
        draft = write_item(codec, entity, PLAIN)
        assert isinstance(draft, Draft)
        assert draft == codec.encode(entity)
        assert rows(draft, PLAIN) == rows(codec.encode(entity), PLAIN)


@pytest.mark.parametrize(
    ("values", "message"),
    [({"name": 5}, "Expiring.name"), ({"name": "\ud800"}, "surrogate"), ({"expires_at": "now"}, "Expiring.expires_at")],
    ids=str,
)
def test_invalid_values_are_refused(values: dict[str, Any], message: str) -> None:
    codec = compile_codec(Expiring, "Expiring")
    with pytest.raises(BadValue, match=message):
        write_item(codec, Expiring.model_construct(**({"name": "a", "expires_at": None} | values)), PLAIN)
    with pytest.raises(BadValue):
        write_item(codec, Other.model_construct(), PLAIN)


def test_too_deep_values_are_refused() -> None:
    model: Any = create_model("M", value=JsonValue)
    codec = compile_codec(model, "M")
    deep: Any = []
    for _ in range(33):
        deep = [deep]
    with pytest.raises(BadValue, match="levels"):
        write_item(codec, model.model_construct(value=deep), PLAIN)


def test_a_name_that_is_reserved_or_too_long_is_left_to_the_item() -> None:
    for name in ("~r", "é" * 5000):
        model: Any = create_model("M", value=Annotated[str, Stored(name)])
        item = write_item(compile_codec(model, "M"), model(value="x"), PLAIN)
        assert not isinstance(item, Draft)


class Priced(BaseModel):
    price: Decimal


@example(Decimal("0.0000001"))
@example(Decimal("1.50"))
@example(Decimal("-0.5"))
@example(Decimal("12345678901234567890.123456789012345678"))
@example(Decimal("0." + "1" * 39))
@given(st.decimals(allow_nan=False, allow_infinity=False) | st.decimals(-1000, 1000, places=2))
def test_a_decimal_has_the_text_of_its_stored_number(price: Decimal) -> None:
    codec = compile_codec(Priced, "Priced")
    entity = Priced.model_construct(price=price)
    try:
        item = codec.encode(entity)
    except BadValue:
        with pytest.raises(BadValue):
            write_item(codec, entity, PLAIN)
    else:
        assert rows(write_item(codec, entity, PLAIN), PLAIN) == rows(item, PLAIN)
