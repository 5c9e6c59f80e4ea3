"""Templates that cannot be compiled: the message names the pattern, the template, the placeholder and the fix."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, IntFlag
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, NaiveDatetime

from odm.errors import SchemaError
from odm.keys import compile_template


class Level(IntFlag):
    LOW = 1


class Mixed(Enum):
    A = "a"
    B = 2


class Order(BaseModel):
    customer_id: str
    placed_at: datetime
    day: NaiveDatetime
    quantity: int
    impossible: int = Field(gt=5, lt=6)
    total: Decimal
    lines: list[str]
    meta: dict[str, str]
    either: int | str
    level: Level
    mixed: Mixed
    number: Literal[1, True]
    hollow: Literal["a", ""]
    anything: Any
    blob: bytes
    price: Decimal = Field(decimal_places=2)
    status: Literal["open"] = "open"


FIELDS: Mapping[str, Any] = Order.model_fields


@pytest.mark.parametrize(
    ("template", "placeholder", "fault", "fix"),
    [
        ("A#{custmer_id}", "{custmer_id}", "no field 'custmer_id'", "did you mean customer_id?"),
        ("A#{zzz}", "{zzz}", "no field 'zzz'", "the fields are customer_id, placed_at, day"),
        ("A#{}", "{}", "no field ''", "the fields are customer_id"),
        ("A#{customer_id }", "{customer_id }", "no field 'customer_id '", "did you mean customer_id?"),
        (f"A#{id}", f"A#{id}", "an f-string fills in its fields at once", "drop the f before the quotes"),
        (f"A#{type}", f"A#{type}", "an f-string fills in its fields at once", "drop the f before the quotes"),
        (f"A#{Field()}", f"A#{Field()}", "an f-string fills in its fields at once", "drop the f before the quotes"),
        ("{lines}", "{lines}", "its type list", "use one of str, int, Literal"),
        ("{meta}", "{meta}", "its type dict", "use one of str, int, Literal"),
        ("{either}", "{either}", "its type int | str", "use one of str, int, Literal"),
        ("{anything}", "{anything}", "its type ", "use one of str, int, Literal"),
        ("{day}", "{day}", "its type NaiveDatetime", "use one of str, int, Literal"),
        ("{level}", "{level}", "Level is a Flag, whose combinations", "declare an int"),
        ("{mixed}", "{mixed}", "not all str or all int", "use one of str, int, Literal"),
        ("{number}", "{number}", "not all str or all int", "use one of str, int, Literal"),
        ("{hollow}", "{hollow}", "the value '' of ", "give a text"),
        ("{total}", "{total}", "fixed number of places", "Field(decimal_places=2)"),
        ("{impossible}", "{impossible}", "no value is within the bounds", "correct its ge, gt"),
        ("{customer_id:desc}", "{customer_id:desc}", "no opposite order", "drop desc"),
        ("{customer_id:<5:desc}", "{customer_id:<5:desc}", "no opposite order", "drop desc"),
        ("{blob:desc}", "{blob:desc}", "no opposite order", "drop desc"),
        ("{status:desc}", "{status:desc}", "no opposite order", "drop desc"),
        ("{customer_id}v", "{customer_id}", "'v' cannot follow", "put '#' between"),
        ("{customer_id}{quantity}", "{customer_id}", "'{quantity}' cannot follow", "put '#' between"),
        ("{status}x#{quantity}", "{status}", "'x#' cannot follow", "put '#' between"),
        ("{blob}-", "{blob}", "'-' cannot follow", "put '#' between"),
        ("{placed_at:%m%d}", "{placed_at:%m%d}", "'%m%d' does not sort", "starts with %Y"),
        ("{placed_at:%Y%d}", "{placed_at:%Y%d}", "'%Y%d' does not sort", "in the order %Y %m %d"),
        ("{placed_at:%Y%j}", "{placed_at:%Y%j}", "'%Y%j' does not sort", "no other"),
        ("{placed_at:%Y%%}", "{placed_at:%Y%%}", "'%Y%%' does not sort", "no other"),
        ("{placed_at:%Y%}", "{placed_at:%Y%}", "'%Y%' does not sort", "no other"),
        ("{placed_at:%Y#%m}", "{placed_at:%Y#%m}", "ends a component", "use two placeholders"),
        ("{placed_at:h}", "{placed_at:h}", "'h' is not a format of a datetime", "s, ms, us or a form"),
        ("{placed_at:<5}", "{placed_at:<5}", "'<5' is not a format of a datetime", "s, ms, us or a form"),
        ("{quantity:int64be}", "{quantity:int64be}", "keys of odm are text", "row_style="),
        ("{quantity:5}", "{quantity:5}", "'5' is not a format of its type int", "drop it"),
        ("{price:%Y}", "{price:%Y}", "'%Y' is not a format of its type Decimal", "drop it"),
        ("{customer_id:s}", "{customer_id:s}", "'s' is not a format of a str", "<N"),
        ("{customer_id:<0}", "{customer_id:<0}", "'<0' is not a format of a str", "<N"),
        ("{quantity:}", "{quantity:}", "the format after ':' is missing", "drop the ':'"),
        ("{quantity::desc}", "{quantity::desc}", "the format after ':' is missing", "drop the ':'"),
        ("", "", "a component is empty", "put text"),
        ("#A", "", "a component is empty", "put text"),
        ("A#", "", "a component is empty", "put text"),
        ("A##{customer_id}", "", "a component is empty", "put text"),
        ("A$#{customer_id}", "", "'$' cannot be used", "printable ASCII"),
        ("A b#{customer_id}", "", "' ' cannot be used", "sorts below '#'"),
        ("A!#{customer_id}", "", "'!' cannot be used", "sorts below '#'"),
        ("Ä#{customer_id}", "", "'Ä' cannot be used", "printable ASCII"),
        ("A\n#{customer_id}", "", "'\\n' cannot be used", "printable ASCII"),
        ("A{customer_id", "", "'{' has no partner", "placeholders are"),
        ("A}#{customer_id}", "", "'}' has no partner", "placeholders are"),
        ("{{customer_id}}", "", "'{' has no partner", "placeholders are"),
    ],
)
def test_a_bad_template_is_a_schema_error(template: str, placeholder: str, fault: str, fix: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_template(template, FIELDS, owner="Order.by_date")
    message = str(caught.value)
    assert message.startswith(f"Order.by_date: key template {template!r}: ")
    for part in (placeholder, fault, fix):
        assert part in message


class Log(BaseModel):
    day: date


@pytest.mark.parametrize(("form", "fault"), [("s", "'s' is not a format of a date"), ("%Y%m%d%H", "does not sort")])
def test_a_date_has_no_form_below_the_day(form: str, fault: str) -> None:
    with pytest.raises(SchemaError, match=rf"Log\.p: .*\{{day:{form}\}}: .*{fault}"):
        compile_template(f"{{day:{form}}}", Log.model_fields, owner="Log.p")
