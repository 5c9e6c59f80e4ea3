"""Which items a query returns, in which order, and in which pages."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

from odm import between, starts_with
from tests.facts.fact import Case, Fact, dynoxide, fact, shown_node
from tests.facts.model import Blob, Exact, Number, Text

BASIC, BINARY, NUMERIC = "S query/basic", "S query/binaryKeys", "S query/numericKeys"
PAGE: Final = "S limits/responseSize"
D_QUERY: Final = "D Query.KeyConditionExpressions"

TEXTS: Final = ["10", "9", "A", "Z", "a", "aa", "ab", "b", "z", "é", "\uffff", "\U00010000"]
NUMBERS: Final = [-(10**20), -100, -11, -2, -1, 0, 1, 2, 9, 10, 11, 99, 100, 10**20]
EXACTS: Final = [Decimal(text) for text in ("-100.5", "-2", "-1.25", "0", "0.01", "1", "1.5", "10", "100.5")]
BLOBS: Final = [b"\x00", b"\x00\x00", b"\x01", b"a", b"a\x00", b"b", b"\x7f", b"\x80", b"\xff", b"\xff\x00"]
S: Final = Text.sort

_SCANNED_TWICE: Final = dynoxide("reports an item as scanned in two pages if the first one ends before it at 1 MB")

KINDS: Final = {Text: "text", Number: "int", Exact: "Decimal", Blob: "bytes"}
STORED: Final[dict[Any, list[Any]]] = {Text: TEXTS, Number: NUMBERS, Exact: EXACTS, Blob: BLOBS}


def sorts(case: Case, entity: Any, conditions: Sequence[Any], reverse: bool = False) -> list[Any]:
    """The sort keys that a query of a partition returns, of the items in `STORED`."""
    with case.db.batch() as batch:
        for sort in STORED[entity][::-1]:
            batch.put(entity(id=case.id, sort=sort))
    query = entity.primary(id=case.id).where(*conditions)
    query = query.reverse() if reverse else query
    found = [item.sort for item in case.db.query(query)]
    assert case.db.count(query) == len(found)
    return found


_TEXT_ROWS: list[tuple[Any, Iterable[str], str]] = [
    ((), TEXTS, BASIC),
    ((S == "a",), ["a"], BASIC),
    ((S == "c",), [], BASIC),
    ((S < "a",), ["10", "9", "A", "Z"], BASIC),
    ((S <= "a",), ["10", "9", "A", "Z", "a"], D_QUERY),
    ((S > "z",), ["é", "\uffff", "\U00010000"], D_QUERY),
    ((S >= "z",), ["z", "é", "\uffff", "\U00010000"], BASIC),
    ((between(S, "a", "b"),), ["a", "aa", "ab", "b"], BASIC),
    ((between(S, "aa", "az"),), ["aa", "ab"], BASIC),
    ((between(S, "b", "a"),), [], "L"),
    ((starts_with(S, "a"),), ["a", "aa", "ab"], BASIC),
    ((starts_with(S, "ab"),), ["ab"], BASIC),
    ((starts_with(S, "c"),), [], BASIC),
    ((starts_with(S, "\uffff"),), ["\uffff"], "L"),
    ((S > "a", S < "b"), ["aa", "ab"], "L"),
]
_NUMBER_ROWS: list[tuple[Any, list[int], str]] = [
    ((), NUMBERS, NUMERIC),
    ((Number.sort > 10,), [11, 99, 100, 10**20], NUMERIC),
    ((Number.sort >= -2,), NUMBERS[3:], NUMERIC),
    ((Number.sort < 0,), NUMBERS[:5], NUMERIC),
    ((between(Number.sort, 2, 10),), [2, 9, 10], NUMERIC),
    ((between(Number.sort, -11, 1),), [-11, -2, -1, 0, 1], NUMERIC),
]
_OTHER_ROWS: list[tuple[Any, Any, list[Any], str]] = [
    (Exact, (), EXACTS, NUMERIC),
    (Exact, (Exact.sort > 1,), EXACTS[6:], NUMERIC),
    (Exact, (between(Exact.sort, Decimal("-1.25"), Decimal("0.01")),), EXACTS[2:5], NUMERIC),
    (Blob, (), BLOBS, BINARY),
    (Blob, (Blob.sort > b"a",), BLOBS[4:], BINARY),
    (Blob, (Blob.sort < b"\x01",), BLOBS[:2], BINARY),
    (Blob, (starts_with(Blob.sort, b"a"),), [b"a", b"a\x00"], BINARY),
    (Blob, (starts_with(Blob.sort, b"\xff"),), [b"\xff", b"\xff\x00"], BINARY),
]


def _ranges() -> list[Fact]:
    rows: list[tuple[Any, Any, Any, str]] = [
        *((Text, *row) for row in _TEXT_ROWS),
        *((Number, *row) for row in _NUMBER_ROWS),
        *_OTHER_ROWS,
    ]
    found = []
    for entity, conditions, outcome, source in rows:
        kind = KINDS[entity]
        text = f"`{shown_node(' and '.join(map(str, conditions)))}`" if conditions else "all"
        found.append(fact(f"sorted by {kind}: {text}", list(outcome), source, sorts, entity, conditions))
        if not conditions or len(found) % 3 == 0:
            found.append(
                fact(
                    f"sorted by {kind}, in reverse: {text}",
                    list(outcome)[::-1],
                    source,
                    sorts,
                    entity,
                    conditions,
                    True,
                )
            )
    return found


def _paged(case: Case, size: int, *conditions: Any) -> list[int]:
    """The lengths of the pages of ten items."""
    with case.db.batch() as batch:
        for number in range(10):
            batch.put(Text(id=case.id, sort=f"{number}", pad="even" if number % 2 == 0 else "odd"))
    query, lengths, cursor = Text.primary(id=case.id).where(*conditions), [], None
    while True:
        page = case.db.page(query, size=size, after=cursor)
        lengths.append(len(page.items))
        if (cursor := page.cursor) is None:
            return lengths


def _after(case: Case, reverse: bool) -> list[str]:
    """What follows a page of three, after the last item of the page was deleted."""
    _paged(case, 10)
    query = Text.primary(id=case.id).reverse() if reverse else Text.primary(id=case.id)
    first = case.db.page(query, size=3)
    case.db.delete(first.items[-1])
    return [item.sort for item in case.db.page(query, size=3, after=first.cursor).items]


def _large(case: Case, count: int, size: int) -> tuple[int, int]:
    """The items and the requests of a query of so many items of so many bytes."""
    with case.db.batch() as batch:
        for number in range(count):
            batch.put(Text(id=case.id, sort=f"{number:03}", pad="p" * size))
    found: list[Text] = []
    used = case.used(lambda: found.extend(case.db.query(Text.primary(id=case.id))))
    return len(found), used.calls


def _counted(case: Case, count: int, size: int) -> int:
    _large(case, count, size)
    return case.db.count(Text.primary(id=case.id))


def _limited(case: Case, most: int) -> list[str]:
    _paged(case, 10)
    return [item.sort for item in case.db.query(Text.primary(id=case.id).where(Text.pad == "odd").limit(most))]


def _read(case: Case) -> tuple[int, int]:
    """How many items a page of five with a filter holds, and how many a page of five without."""
    _paged(case, 10)
    query = Text.primary(id=case.id)
    return len(case.db.page(query.where(Text.pad == "odd"), size=5).items), len(case.db.page(query, size=5).items)


FACTS = [
    *_ranges(),
    fact("ten items in pages of four", [4, 4, 2], BASIC, _paged, 4),
    fact("ten items in pages of five", [5, 5], BASIC, _paged, 5),
    fact("ten items in pages of ten", [10], BASIC, _paged, 10),
    fact("ten items in pages of one", [1] * 10, BASIC, _paged, 1),
    fact("five of ten items by a filter, in pages of two", [2, 2, 1], BASIC, _paged, 2, Text.pad == "odd"),
    fact("none of ten items by a filter", [0], BASIC, _paged, 2, Text.pad == "none"),
    fact("the items of a page of five with a filter, and of one without", (5, 5), BASIC, _read),
    fact("the first two by a filter", ["1", "3"], BASIC, _limited, 2),
    fact("at most nine by a filter that five pass", ["1", "3", "5", "7", "9"], BASIC, _limited, 9),
    fact("a cursor at an item that was deleted", ["3", "4", "5"], "D Query.Pagination", _after, False),
    fact("a cursor at an item that was deleted, in reverse", ["6", "5", "4"], "D Query.Pagination", _after, True),
    fact("3 items of 300 KB are one request", (3, 1), PAGE, _large, 3, 300_000),
    fact("20 items of 60,000 bytes are two requests", (20, 2), PAGE, _large, 20, 60_000),
    fact("count of 10 items of 300 KB", 10, "D Query.Other", _counted, 10, 300_000, wrong=_SCANNED_TWICE),
    fact("one item of 390,000 bytes", (1, 1), PAGE, _large, 1, 390_000),
    fact("a query of an empty partition", (0, 1), BASIC, _large, 0, 0),
]
