"""Values that cannot stand in a key: the message names the entity, the field, the value and the fix."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from odm.errors import KeyValueError
from tests.keys.cases import compiled

NAIVE = datetime(2024, 1, 1)


@pytest.mark.parametrize(
    ("placeholder", "value", "fault", "fix"),
    [
        ("text", "", "empty", "one character"),
        ("text", "a\ud800", "lone surrogate U+D800", "UTF-8"),
        ("text", 5, "of type int", "give a str"),
        ("text", b"a", "of type bytes", "give a str"),
        ("symbol:<5", "", "empty", "one character"),
        ("symbol:<5", "ABCDEF", "6 characters of 5", "shorten"),
        ("symbol:<5", "A B C", "7 characters of 5", "shorten"),
        ("symbol:<5", "AB ", "ends with a space", "strip"),
        ("status", "lost", "not a declared value", "'open', 'open#2', 'shipped'"),
        ("status", ["open"], "not a declared value", "'open', 'open#2', 'shipped'"),
        ("color", "blue", "not a declared value", "'red'"),
        ("blob", b"", "empty", "one byte"),
        ("blob", "00", "of type str", "give bytes"),
        ("level", 0, "outside 1 to 999", "give one inside"),
        ("level:desc", 1000, "outside 1 to 999", "give one inside"),
        ("level", True, "of type bool", "an int"),
        ("level", 5.0, "of type float", "an int"),
        ("number", 10**26, "more than 26 digits", "str field"),
        ("number", -(10**26), "more than 26 digits", "str field"),
        ("number", True, "of type bool", "an int"),
        ("price", Decimal("1.005"), "more than 2 decimal places", "round"),
        ("price", Decimal(100), "outside -10.00 to 99.99", "give one inside"),
        ("price", Decimal("NaN"), "not a number", "give one"),
        ("price", Decimal("sNaN"), "not a number", "give one"),
        ("amount", Decimal("Infinity"), "outside -9", "give one inside"),
        ("amount", Decimal("1E+23"), "outside -9", "give one inside"),
        ("price", 1.5, "of type float", "a Decimal"),
        ("price", True, "of type bool", "a Decimal"),
        ("at", NAIVE, "no time zone", "aware"),
        ("at:s", NAIVE, "no time zone", "aware"),
        ("at", date(2024, 1, 1), "of type date", "an aware datetime"),
        ("at", "2024-01-01", "of type str", "an aware datetime"),
        ("at", datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))), "years 1 to 9999", "inside"),
        ("at:s", datetime(1969, 12, 31, tzinfo=UTC), "outside 1970 to 2286", "default format"),
        ("at:us:desc", datetime(2287, 1, 1, tzinfo=UTC), "outside 1970 to 2286", "default format"),
        ("day", datetime(2024, 1, 1, tzinfo=UTC), "of type datetime", ".date()"),
        ("id", "12345678-1234-5678-1234-567812345678", "of type str", "a UUID"),
        ("flag", 1, "of type int", "a bool"),
        ("ratio", float("nan"), "not a number", "give one"),
        ("ratio", float("inf"), "not finite", "finite"),
        ("ratio", 10**400, "not finite", "finite"),
        ("ratio", 2**53 + 1, "exactly this int", "give a float"),
        ("ratio", True, "of type bool", "a float"),
    ],
)
def test_a_bad_value_is_a_key_value_error(placeholder: str, value: Any, fault: str, fix: str) -> None:
    template = compiled(f"T#{{{placeholder}}}")
    name = template.fields[0]
    for call in (template.encode, template.span):
        with pytest.raises(KeyValueError) as caught:
            call({name: value})
        message = str(caught.value)
        assert message.startswith(f"Everything.pattern: {name}={repr(value)[:80]}")
        for part in (template.text, fault, fix):
            assert part in message


def test_none_can_not_be_asked_for() -> None:
    with pytest.raises(KeyValueError, match=r"Everything\.pattern: text=None .* of type NoneType"):
        compiled("{text}").span({"text": None})


def test_a_value_too_long_to_print_is_named_by_its_size() -> None:
    with pytest.raises(KeyValueError, match="number=<an int of 16610 bits> cannot stand"):
        compiled("{number}").encode({"number": 10**5000})
    with pytest.raises(KeyValueError) as caught:
        compiled("{symbol:<5}").encode({"symbol": "x" * 1000})
    assert len(str(caught.value)) < 400
