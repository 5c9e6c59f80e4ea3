"""Sizes to the byte: of values, of items and of keys.

A server reports the size of an item by the units of a put: up to 1,024 bytes are one, one byte more is a second one.
"""

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, Final

from odm import BadValue, ItemTooLarge, KeyValueError, set_
from tests.facts.fact import Case, Fact, dynoxide, fact, shown
from tests.facts.model import Ranked, Text, Thing

KB: Final = 1024
MOST: Final = 400 * KB
NUMBER, ITEM, SURFACE = "S limits/numberByteSize", "S limits/itemSize", "S limits/itemSizeBySurface"
D_SIZES: Final = "D CapacityUnitCalculations"
KEY_LENGTH, D_KEYS, EMPTY = "S limits/keyLength", "D Constraints", "S limits/emptyValues"


def overhead(case: Case) -> int:
    """The bytes of a Thing with ``x`` and ``y``, without their values: names, keys, tag and id."""
    return len("pk" + "THING#" + "sk" + "-" + "_t" + "Thing" + "id" + "x" + "y") + 2 * len(case.id)


def padded(case: Case, value: Any, size: int, total: int) -> Thing:
    """A Thing of so many bytes, if its ``x`` has ``size`` bytes."""
    return case.thing(value, "p" * (total - size - overhead(case)))


def size_of(case: Case, value: Any, size: int) -> int:
    """The bytes of a value, as the server's units show; the guess is where to look first."""
    guesses: list[int] = [size, *range(KB - overhead(case))]
    for guess in guesses:
        case.db.delete(case.key)
        items = [padded(case, value, guess, total) for total in (KB, KB + 1)]
        if [case.used(partial(case.db.put, item)).write_units for item in items] == [1, 2]:
            return guess
    raise AssertionError("no size fits")


_VALUES: list[tuple[Any, int, str]] = [
    *(
        (number, size, NUMBER)
        for size, texts in {
            1: "0 -0",
            2: "1 12 100 15 0.15 0.0000001 1E+125 1E-100",
            3: "123 1234 1010 1.5 1.2 1.200 -42",
            4: "123456 1.234 100.5",
            5: "3.14159",
            20: "12345678901234567890123456789012345678",
        }.items()
        for number in map(Decimal, texts.split())
    ),
    (Decimal(-1), 3, NUMBER),
    ("abc", 3, D_SIZES),
    ("", 0, EMPTY),
    ("é", 2, D_SIZES),
    ("€", 3, D_SIZES),
    ("😀", 4, D_SIZES),
    (b"abc", 3, D_SIZES),
    (b"", 0, EMPTY),
    (True, 1, D_SIZES),
    (False, 1, D_SIZES),
    ([], 3, D_SIZES),
    (["ab"], 3 + 1 + 2, D_SIZES),
    ([None], 3 + 1 + 1, D_SIZES),
    ([1, "ab", True], 3 + 3 + 2 + 2 + 1, D_SIZES),
    ([[]], 3 + 1 + 3, D_SIZES),
    ({}, 3, D_SIZES),
    ({"k": "ab"}, 3 + 1 + 1 + 2, D_SIZES),
    ({"key": 1, "é": None}, 3 + 2 + 3 + 2 + 2 + 1, D_SIZES),
    ({"k": {"l": []}}, 3 + 1 + 1 + (3 + 1 + 1 + 3), D_SIZES),
    ({"ab", "c"}, 2 + 1, D_SIZES),
    ({1, 123}, 2 + 3, D_SIZES),
    ({b"ab", b"c"}, 2 + 1, D_SIZES),
]


_UNALIGNED: Final = dynoxide("counts pairs of digits from the first digit, DynamoDB Local from the decimal point")


def _nested(levels: int) -> Any:
    found: Any = "leaf"
    for _ in range(levels):
        found = [found]
    return found


def _put(case: Case, value: Any) -> None:
    case.db.put(case.thing(value))


def _batch(case: Case, thing: Thing) -> None:
    with case.db.batch() as batch:
        batch.put(thing)


def _transaction(case: Case, thing: Thing) -> None:
    with case.db.transaction() as tx:
        tx.put(thing)
        tx.put(Text(id=case.id, sort="-"))


WRITES: Final[dict[str, tuple[str, Callable[[Case, Thing], object]]]] = {
    "put": (ITEM, lambda case, thing: case.db.put(thing)),
    "insert": (ITEM, lambda case, thing: case.db.insert(thing)),
    "batch": (SURFACE, _batch),
    "transaction": (SURFACE, _transaction),
}


def _written(case: Case, write: Callable[[Case, Thing], object], total: int, values: int = 1) -> int:
    """Write an item of so many bytes; returns the length of the text that is read."""
    case.db.delete(case.key)
    text = "é" * ((total - overhead(case)) // 2 - 50)
    value: Any = text if values == 1 else [text[n::values] for n in range(values)]
    size = len(text.encode()) + (0 if values == 1 else 3 + values)
    write(case, padded(case, value, size, total))
    padding: str = case.db.one(case.key).y
    return size + len(padding) + overhead(case)


def _gate() -> list[Fact]:
    found = []
    for name, (source, write) in WRITES.items():
        for total, outcome in ((MOST, MOST), (MOST + 1, ItemTooLarge)):
            text = f"{name} of an item of {total:,} bytes"
            found.append(fact(text, outcome, source, _written, write, total))
    for parts in (2, 10):
        for total, outcome in ((MOST, MOST), (MOST + 1, ItemTooLarge)):
            text = f"put of an item of {total:,} bytes in {parts} parts"
            found.append(fact(text, outcome, ITEM, _written, WRITES["put"][1], total, parts))
    return found


def _replaced(case: Case) -> int:
    """An update of 300 KB over 300 KB."""
    case.db.put(case.thing("a" * 300 * KB))
    case.db.update(case.key, set_(Thing.x, "b" * 300 * KB))
    return len(case.db.one(case.key).x)


def _grown(case: Case) -> None:
    """An update that would make an item of 600 KB."""
    case.db.put(case.thing("a" * 300 * KB))
    case.db.update(case.key, set_(Thing.y, "b" * 300 * KB))


def _ranked(case: Case, total: int) -> int:
    case.db.put(Ranked(id=case.id, sort="-", rank=1, note="n" * total))
    return len(case.db.one(Ranked.primary(id=case.id, sort="-")).note)


def _id(case: Case, length: int) -> str:
    """An id with which the partition key has this length."""
    return case.id.ljust(length - len("THING#"), "x")


def _sorted(case: Case, length: int) -> None:
    case.db.put(Text(id=case.id, sort="s" * length))


def _where(case: Case, length: int) -> Any:
    return Thing.primary(id=_id(case, length))


def _tx(case: Case, length: int, word: str) -> None:
    with case.db.transaction() as tx:
        tx.put(case.thing())
        getattr(tx, word)(_where(case, length))


def _delete_batch(case: Case, length: int) -> None:
    with case.db.batch() as batch:
        batch.delete(_where(case, length))


# What is done under a key of so many bytes, and who says that more than 2,048 are refused.
LONG: Final[dict[str, tuple[str, Callable[[Case, int], object]]]] = {
    "put": (KEY_LENGTH, lambda case, n: case.db.put(Thing(id=_id(case, n)))),
    "upsert": (KEY_LENGTH, lambda case, n: case.db.update(_where(case, n), set_(Thing.x, 1), upsert=True)),
    "delete": (D_KEYS, lambda case, n: case.db.delete(_where(case, n))),
    "delete in a batch": (D_KEYS, _delete_batch),
    "delete in a transaction": (D_KEYS, lambda case, n: _tx(case, n, "delete")),
    "check in a transaction": (D_KEYS, lambda case, n: _tx(case, n, "check")),
    "get": (KEY_LENGTH, lambda case, n: case.db.get(_where(case, n))),
    "exists": (KEY_LENGTH, lambda case, n: case.db.exists(_where(case, n))),
    "get_many": (D_KEYS, lambda case, n: case.db.get_many([_where(case, n)])),
    "query": (D_KEYS, lambda case, n: case.db.first(_where(case, n))),
}
LONG_STORED: Final = ("put", "upsert", "delete", "delete in a batch", "delete in a transaction", "get", "query")


def _done(case: Case, call: Callable[[Case, int], object], length: int) -> None:
    call(case, length)


def _long() -> list[Fact]:
    stored = [
        fact(f"{name} under a partition key of 2,048 bytes", None, source, _done, call, 2048)
        for name, (source, call) in LONG.items()
        if name in LONG_STORED
    ]
    refused = [
        fact(f"{name} under a partition key of 2,049 bytes", ItemTooLarge, source, call, 2049)
        for name, (source, call) in LONG.items()
    ]
    return [*stored, *refused]


FACTS = [
    *(fact(f"bytes of `{shown(value)}`", size, source, size_of, value, size) for value, size, source in _VALUES),
    *(
        fact(f"bytes of `{number}`", 3, "L", size_of, Decimal(number), 3, wrong=_UNALIGNED)
        for number in ("0.015", "110", "11000")
    ),
    *_gate(),
    fact("an update of 300 KB over 300 KB", 300 * KB, SURFACE, _replaced),
    fact("an update that would make an item of 600 KB", ItemTooLarge, ITEM, _grown),
    fact("200,000 bytes with a local index that holds them too", 200_000, "D LSI", _ranked, 200_000),
    fact("210,000 bytes with a local index", ItemTooLarge, "D LSI", _ranked, 210_000),
    fact("31 levels of lists", None, "S limits/nestingDepth", _put, _nested(31)),
    fact("32 levels of lists", BadValue, "S limits/nestingDepth", _put, _nested(32)),
    *_long(),
    fact("a sort key of 1,024 bytes", None, D_KEYS, _sorted, 1024),
    fact("a sort key of 1,025 bytes", ItemTooLarge, D_KEYS, _sorted, 1025),
    fact("an empty sort key", KeyValueError, EMPTY, _sorted, 0),
    fact("an empty text in a partition key", KeyValueError, EMPTY, lambda case: case.db.put(Thing(id=""))),
]
