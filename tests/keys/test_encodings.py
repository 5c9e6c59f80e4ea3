"""What keys look like, text by text: stored data depends on it, so a change here orphans users' items."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NewType
from uuid import UUID

import pytest
from annotated_types import Interval
from pydantic import AwareDatetime, BaseModel, Field, PositiveInt

from odm.keys import compile_template
from tests.keys.cases import Color, compiled

AT = datetime(2023, 9, 10, 15, 21, 48, 123456, UTC)


@pytest.mark.parametrize(
    ("placeholder", "value", "text"),
    [
        ("text", "plain", "plain"),
        ("text", "a#b", "a$Sb"),
        ("text", ' \0\t\n!"#$%', "$P$0$9$:$Q$R$S$T%"),
        ("text", "é\U0001f600", "é\U0001f600"),
        ("symbol:<5", "AB", "AB   "),
        ("symbol:<5", "A B", "A$PB "),
        ("symbol:<5", "é\U0001f600xyz", "é\U0001f600xyz"),
        ("status", "open#2", "open$S2"),
        ("color", Color.DARK_RED, "red$Pdark"),
        ("color", "#", "$S"),
        ("text", Color.RED, "red"),
        ("blob", b"\x00\xff#", "00ff23"),
        ("level", 7, "007"),
        ("level:desc", 7, "992"),
        ("balance", -50, "000"),
        ("balance", 50, "100"),
        ("balance:desc", -50, "999"),
        ("number", 42, "b42"),
        ("number", -42, "Y57"),
        ("number", 0, "a0"),
        ("number", 10**26 - 1, "z" + "9" * 26),
        ("number", 1 - 10**26, "A" + "0" * 26),
        ("number:desc", 42, "Y57"),
        ("number:desc", -42, "b42"),
        ("number:desc", 0, "a0"),
        ("price", Decimal(-10), "00000"),
        ("price", Decimal("1.5"), "01150"),
        ("price", Decimal("1.50"), "01150"),
        ("amount", Decimal("1.5"), "d1500"),
        ("amount", Decimal("-1E+1"), "V89999"),
        ("amount:desc", Decimal("1.5"), "W8499"),
        ("amount", 2, "d2000"),
        ("at", AT, "2023-09-10T15:21:48.123456Z"),
        ("at", AT.replace(microsecond=0), "2023-09-10T15:21:48.000000Z"),
        ("at", AT.astimezone(timezone(timedelta(hours=-9))), "2023-09-10T15:21:48.123456Z"),
        ("at", datetime(33, 4, 3, tzinfo=UTC), "0033-04-03T00:00:00.000000Z"),
        ("at:desc", AT, "7976-90-89T84:78:51.876543Z"),
        ("at:s", AT, "1694359308"),
        ("at:ms", AT, "1694359308123"),
        ("at:us", AT, "1694359308123456"),
        ("at:ms:desc", AT, "8305640691876"),
        ("at:s", datetime(1970, 1, 1, tzinfo=UTC), "0000000000"),
        ("at:s", datetime(2286, 11, 20, 17, 46, 39, 999999, UTC), "9999999999"),
        ("at:%Y", datetime(33, 4, 3, tzinfo=UTC), "0033"),
        ("at:%Y%m%d", AT, "20230910"),
        ("at:%Y-%m-%dT%H:%M:desc", AT, "7976-90-89T84:78"),
        ("at:%Y%m%d%H%M%S%3f", AT, "20230910152148123"),
        ("at:%Y%m%d%H%M%S%f", AT, "20230910152148123456"),
        ("day", date(33, 4, 3), "0033-04-03"),
        ("day:desc", date(2023, 9, 10), "7976-90-89"),
        ("day:%Y%m", date(2023, 9, 10), "202309"),
        ("id", UUID("{12345678-1234-5678-1234-567812345678}"), "12345678-1234-5678-1234-567812345678"),
        ("id:desc", UUID(int=0), "ffffffff-ffff-ffff-ffff-ffffffffffff"),
        ("flag", True, "1"),
        ("flag", False, "0"),
        ("flag:desc", True, "0"),
        ("ratio", 0.0, "8000000000000000"),
        ("ratio", -0.0, "8000000000000000"),
        ("ratio", 1.5, "bff8000000000000"),
        ("ratio", -1.5, "4007ffffffffffff"),
        ("ratio:desc", 1.5, "4007ffffffffffff"),
        ("ratio", 3, "c008000000000000"),
    ],
)
def test_one_value(placeholder: str, value: Any, text: str) -> None:
    template = compiled(f"T#{{{placeholder}}}")
    assert template.encode({template.fields[0]: value}) == f"T#{text}"


class Row(BaseModel):
    """Fields of published row-key designs, for Bigtable and for DynamoDB."""

    user: str
    category: str
    product: str
    brand: str
    garden: str
    exchange: str
    symbol: str
    hostname: str
    customer_id: str
    order_id: str
    day: date
    at: datetime
    quoted_at: datetime
    meter: int = Field(ge=0, lt=10**10)


@pytest.mark.parametrize(
    ("template", "values", "key"),
    [
        (
            "BATTERY#{user}#{at:%Y%m%d%H%M%S%3f}",
            {"user": "Corrie", "at": datetime(2015, 3, 1, 12, 45, 1, 1000, UTC)},
            "BATTERY#Corrie#20150301124501001",
        ),
        (
            "{category}#{product}#{brand}",
            {"category": "hats", "product": "fedoras", "brand": "brandA"},
            "hats#fedoras#brandA",
        ),
        ("{garden}#{day:%Y%m%d}", {"garden": "VEGGIEGARDEN", "day": date(2015, 3, 1)}, "VEGGIEGARDEN#20150301"),
        (
            "{exchange}#{symbol}#{quoted_at:ms}",
            {
                "exchange": "NASDAQ",
                "symbol": "ZXZZT",
                "quoted_at": datetime(2015, 3, 16, 19, 53, 32, 156000, UTC),
            },
            "NASDAQ#ZXZZT#1426535612156",
        ),
        ("{meter}#{day:%Y%m%d}", {"meter": 987654, "day": date(2017, 7, 26)}, "0000987654#20170726"),
        (
            "{hostname}#{at:ms}",
            {"hostname": "server1.bbb.com", "at": datetime(2015, 3, 16, 19, 53, 32, 45000, UTC)},
            "server1.bbb.com#1426535612045",
        ),
        ("{hostname}", {"hostname": "server1.bbb.com"}, "server1.bbb.com"),
        (
            "PLACED#{at}#{order_id}",
            {"at": datetime(2023, 9, 10, 15, 21, 48, tzinfo=UTC), "order_id": "o#1"},
            "PLACED#2023-09-10T15:21:48.000000Z#o$S1",
        ),
        ("PROFILE", {}, "PROFILE"),
        ("100%s#{user}", {"user": "%d"}, "100%s#%d"),
    ],
)
def test_whole_keys(template: str, values: dict[str, Any], key: str) -> None:
    assert compile_template(template, Row.model_fields, owner="Row.primary").encode(values) == key


def test_a_missing_value_means_no_key() -> None:
    template = compiled("{text}#{seen}")
    assert template.encode({"text": "a", "seen": None}) is None
    assert template.encode({"text": None, "seen": AT}) is None


CustomerId = NewType("CustomerId", str)


class Size(str, Enum):  # noqa: UP042 - whose str() is not its value, unlike a StrEnum's
    SMALL = "s#"
    BIG = "big"


def test_an_enum_member_in_a_str_field_is_written_by_its_value() -> None:
    assert compiled("{text}#{other}").encode({"text": Size.SMALL, "other": Size.BIG}) == "s$S#big"


class Suit(Enum):
    HEARTS = "h"
    SPADES = "s"


class Priority(IntEnum):
    LOW = -3
    HIGH = 20


class Wrapped(BaseModel):
    """Annotations that say the same in other ways."""

    größe: str  # noqa: PLC2401 - Pydantic allows it
    a: Annotated[int, Interval(ge=1, lt=13)]
    b: Annotated[int, Field(gt=0, le=12)] | None = None
    c: Annotated[int | None, Field(ge=1, le=12)] = None
    d: Annotated[Decimal, Field(decimal_places=1, gt=0, lt=10)] | None = None
    e: AwareDatetime
    f: CustomerId
    g: PositiveInt
    h: Suit
    i: Literal["x", None]  # noqa: PYI061 - the spelling under test
    j: Priority
    k: Literal[1, 20, None]  # noqa: PYI061
    n: Literal[Priority.LOW, Priority.HIGH]


@pytest.mark.parametrize(
    ("field", "value", "key"),
    [
        ("größe", "x", "x"),
        ("a", 7, "07"),
        ("b", 7, "07"),
        ("c", 7, "07"),
        ("d", Decimal("0.1"), "01"),
        ("e", AT, "2023-09-10T15:21:48.123456Z"),
        ("f", "c1", "c1"),
        ("g", 7, "a7"),
        ("h", Suit.HEARTS, "h"),
        ("i", "x", "x"),
        ("j", Priority.HIGH, "b20"),
        ("j", -3, "Z6"),
        ("k", 20, "b20"),
        ("n", Priority.LOW, "Z6"),
    ],
)
def test_bounds_and_types_are_found_wherever_they_are_written(field: str, value: Any, key: str) -> None:
    assert compile_template(f"{{{field}}}", Wrapped.model_fields, owner="Wrapped.p").encode({field: value}) == key


def test_a_template_tells_its_fields() -> None:
    template = compiled("D#{at:%Y%m%d}#{text}#{at}#{day}")
    assert template.fields == ("at", "text", "at", "day")
    assert template.lossy == {"at"}
    assert compiled("{at:s:desc}#{day:desc}").lossy == {"at"}
    assert template == compiled.__wrapped__("D#{at:%Y%m%d}#{text}#{at}#{day}")
    assert template != compiled("D#{at:%Y%m}#{text}#{at}#{day}")
    assert hash(template) == hash(compiled.__wrapped__(template.text))
