"""Attributes and cells of all forms that other programs write, and random conditions on entities with their results."""

import operator
import struct
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final
from uuid import UUID

from odm import exists, is_in, missing, not_

NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
TIMES: Final = [NOON + timedelta(microseconds=n) for n in (0, 1, 500_000, 30_000_000, 30_120_000, 86_400_000_000)]
MIDNIGHT: Final = datetime(2026, 1, 5, tzinfo=UTC)
IDS: Final = [UUID(int=n << 64 | 0xABC) for n in (1, 0xFFFF, 2**60)]


def _texts(moment: datetime) -> list[str]:
    """The texts of a time that programs in several languages write."""
    second, micro = moment.strftime("%Y-%m-%dT%H:%M:%S"), moment.strftime("%f")
    digits = "" if not moment.microsecond else f".{micro[:3]}" if micro.endswith("000") else f".{micro}"
    short = second.removesuffix(":00") if not digits else second
    go = f"{second}.{micro.rstrip('0')}Z" if moment.microsecond else f"{second}Z"
    made = [f"{second}Z", f"{second}.{micro[:3]}Z", f"{second}.{micro}Z", f"{second}{digits}Z", f"{short}{digits}Z", go]
    made += [f"{short}{digits}", moment.isoformat(), moment.replace(tzinfo=None).isoformat(), f"{second}.{micro}123Z"]
    return [*made, moment.strftime("%Y-%m-%d %H:%M:%S"), moment.strftime("%Y-%m-%d")]


def _epochs(moment: datetime) -> list[str]:
    micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    parts = [Decimal(micros) / 1_000_000, Decimal(micros) / 1000, Decimal(micros), Decimal(micros) * 1000 + 1]
    return [f"{part.normalize():f}" for part in (*parts, Decimal(micros) * 1000, Decimal(micros // 86_400_000_000))]


TEXTS: Final[dict[str, list[str]]] = {
    "number": ["100", "1.50", "1.5", "0", "-2", "007", "1e3", "12345678901234567890.5"],
    "bool": ["true", "false", "yes", "no", "1", "0", "True"],
    "time": [text for moment in (*TIMES, MIDNIGHT) for text in _texts(moment)],
    "id": [form for one in IDS for form in (str(one), str(one).upper(), one.hex)],
    "bytes": [b64encode(data).decode() for data in (b"", b"hello", b"\xff\xfe\xfd")] + ["aGk", "6869"],
    "nested": ['{"town":"Rome","zip":7}', '{"town": "Rome", "zip": 7}', "[1,2]", '{"zip":1.0}', '"\\u00e9"', "{"],
    "text": ["", "a", "b", "\u00e9", "z"],
}
ATTRIBUTES: Final[dict[str, list[dict[str, Any]]]] = {
    name: [{"S": text} for text in texts] for name, texts in TEXTS.items()
}
ATTRIBUTES["number"] += [{"N": n} for n in ("100", "1.5", "0", "-2", "1E+3", "12345678901234567890.5", "0.1")]
ATTRIBUTES["bool"] += [{"BOOL": True}, {"BOOL": False}, {"N": "1"}, {"N": "0"}, {"N": "2"}]
ATTRIBUTES["time"] += [{"N": n} for moment in (*TIMES, MIDNIGHT) for n in _epochs(moment)]
ATTRIBUTES["id"] += [{"B": one.bytes} for one in IDS]
ATTRIBUTES["bytes"] += [{"B": b"hello"}, {"B": b"\xff\xfe\xfd"}]
ATTRIBUTES["nested"] += [
    {"M": {"town": {"S": "Rome"}, "zip": {"N": "7"}}},
    {"M": {"town": {"S": "Rome"}}},
    {"M": {"town": {"S": "Rome"}, "zip": {"S": "7"}}},
    {"M": {"town": {"S": "Rome"}, "zip": {"N": "7"}, "of": {"NULL": True}}},
    {"L": [{"N": "1"}, {"N": "2"}]},
    {"L": [{"S": "1"}]},
    {"SS": ["a", "b"]},
    {"NS": ["1", "2"]},
    {"L": []},
]
CELLS: Final[dict[str, list[bytes]]] = {name: [text.encode() for text in texts] for name, texts in TEXTS.items()}
CELLS["number"] += [struct.pack(">q", 100), struct.pack(">d", 1.5), struct.pack(">d", 0.0)]
CELLS["bool"] += [struct.pack(">q", 1), struct.pack(">q", 2)]
CELLS["time"] += [struct.pack(">q", int(n)) for moment in (*TIMES, MIDNIGHT) for n in _epochs(moment) if n.isdigit()]
CELLS["time"] += [n.encode() for moment in (*TIMES, MIDNIGHT) for n in _epochs(moment)]
CELLS["id"] += [one.bytes for one in IDS]
CELLS["bytes"] += [b"hello", b"\xff\xfe\xfd"]

OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip
Test = tuple[Any, Callable[[Any, set[str]], bool]]
"""A condition, and its result in Python for an entity and the names that are stored of it."""


def random_condition(random: Random, cls: Any, names: Sequence[str], shown: Sequence[Any]) -> Test:
    """A random condition.

    Args:
        random: chooses.
        cls: the class of the entities.
        names: the fields on which it may be.
        shown: entities whose values it is compared with.
    """
    kind = random.random()
    if kind < 0.15:
        one, other = random_condition(random, cls, names, shown), random_condition(random, cls, names, shown)
        if random.random() < 0.5:
            return one[0] & other[0], lambda e, stored: one[1](e, stored) and other[1](e, stored)
        return one[0] | other[0], lambda e, stored: one[1](e, stored) or other[1](e, stored)
    if kind < 0.2:
        inner = random_condition(random, cls, names, shown)
        return not_(inner[0]), lambda e, stored: not inner[1](e, stored)
    name = random.choice(names)
    path = getattr(cls, name)
    if kind < 0.3:
        return missing(path), lambda _, stored: name not in stored
    if kind < 0.4:
        return exists(path), lambda _, stored: name in stored
    values = [value for one in shown if (value := getattr(one, name)) is not None]
    if not values or kind < 0.45:
        sign = random.choice(["==", "!="])
        return OPERATORS[sign](path, None), lambda e, _: compared(sign, getattr(e, name), None)
    value = random.choice(values)
    if kind < 0.5:
        few = random.sample(values, min(2, len(values)))
        return is_in(path, few), lambda e, _: any(compared("==", getattr(e, name), one) for one in few)
    sign = random.choice(list(OPERATORS))
    return OPERATORS[sign](path, value), lambda e, _: compared(sign, getattr(e, name), value)


def compared(sign: str, value: Any, other: Any) -> bool:
    """The result of a comparison in Python; a bool does not equal a number, as in the stores."""
    alike = isinstance(value, bool) is isinstance(other, bool)
    if sign in ("==", "!="):
        return (alike and value == other) is (sign == "==")
    try:
        return alike and value is not None and bool(OPERATORS[sign](value, other))
    except TypeError:  # of a field of type Any: values of several types have no order
        return False
