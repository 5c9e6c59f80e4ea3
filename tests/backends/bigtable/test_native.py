import pytest

from odm.backends.bigtable.client.filters import Family, Stripped, newest
from odm.backends.bigtable.client.native import (
    COUNTERS,
    AppendValue,
    Begin,
    CheckAndMutateRow,
    Concurrent,
    DeleteColumn,
    Entry,
    GenerateInitialChangeStreamPartitions,
    Increment,
    MutateRow,
    MutateRows,
    Native,
    ReadChangeStream,
    ReadModifyWriteRow,
    ReadRows,
    RowRange,
    SetCell,
    Span,
    Token,
)
from odm.backends.bigtable.client.native_admin import (
    CreateTable,
    DeleteTable,
    DropRows,
    GetTable,
    ListTables,
    ModifyFamilies,
)
from odm.backends.bigtable.rows.ownership import REMOVED
from odm.protocol.requests import Sleep
from tests.backends.bigtable.families import kept

REPLACE = (*REMOVED, SetCell("_t", b"Hat", 1000), SetCell("raw", b"\xff", 1000))


@pytest.mark.parametrize(
    ("native", "text"),
    [
        (ReadRows("shop", keys=("hats#b", "a b")), "lookup shop 'hats#b' 'a b' (c:*|d:* | cells-per-column=1)"),
        (
            ReadRows("shop", range=RowRange("hats#a", "hats$"), limit=20, reverse=True),
            "read shop start='hats#a' end='hats$' count=20 reversed=true (c:*|d:* | cells-per-column=1)",
        ),
        (ReadRows("shop", range=RowRange("k", open=True), filter=Stripped()), "read shop after=k strip-value"),
        (ReadRows("shop"), "read shop (c:*|d:* | cells-per-column=1)"),
        (MutateRow("shop", Entry("k", REPLACE)), "mutate shop k deletefamily d deletefamily c d:_t=Hat d:raw='\\xff'"),
        (
            MutateRows("shop", (Entry("k", REPLACE[:3]), Entry("l", REPLACE[:1]))),
            "mutate shop, 2 rows:\n  k deletefamily d deletefamily c d:_t=Hat\n  l deletefamily d",
        ),
        (
            CheckAndMutateRow("shop", "k", unmatched=REPLACE[:3]),
            "check-and-mutate shop k if not there: deletefamily d deletefamily c d:_t=Hat",
        ),
        (
            CheckAndMutateRow("shop", "k", newest("d", "_t"), (DeleteColumn("x"), DeleteColumn("y", "i", 5000))),
            "check-and-mutate shop k if (d:_t | cells-per-column=1): deletecolumn d:x deletecolumn i:y before 5000",
        ),
        (
            ReadModifyWriteRow("shop", "k", (Increment("views", 2), AppendValue("_t", b""))),
            "read-modify-write shop k c:views+=2 d:_t.=''",
        ),
        (
            Concurrent((ReadRows("a", filter=Family("i")), ReadRows("b", filter=Stripped()))),
            "read a i:*\nread b strip-value",
        ),
        (GenerateInitialChangeStreamPartitions("shop"), "generate-initial-change-stream-partitions shop"),
        (
            ReadChangeStream("shop", Span(b"a#", b""), Begin((Token(Span(b"a#", b""), "x/1"),)), 5),
            "read-change-stream shop a%23: tokens=a%23:=x%2F1 count=5",
        ),
        (ReadChangeStream("shop", Span(b"", b""), Begin(at=7), 5), "read-change-stream shop : start=7 count=5"),
        (CreateTable("shop", kept({"d": 1})), "createtable shop families=d:maxversions=1"),
        (DeleteTable("shop"), "deletetable shop"),
        (
            ModifyFamilies("shop", create=kept({"c": 1}), update=kept({"d": 2})),
            "createfamily shop c:maxversions=1\nsetgcpolicy shop d maxversions=2",
        ),
        (GetTable("shop"), "ls shop"),
        (DropRows("shop", "A B#"), "droprowrange shop prefix='A B#'"),
        (DropRows("shop"), "deleteallrows shop"),
        (ListTables("shop"), "ls"),
        (Sleep(0.0512), "sleep 0.051s"),
        (SetCell("x", b"y" * 100, 0), "d:x=" + "y" * 60 + "…"),
        (SetCell("x", b"\0\n\xff\xc3\xa9", 0), r"d:x='\x00\n\xffé'"),
        (SetCell("n", (-3).to_bytes(8, "big", signed=True), 0, COUNTERS), "c:n=-3"),
    ],
)
def test_requests_print_like_cbt(native: Native | SetCell, text: str) -> None:
    shown = str(native)
    assert shown.replace("'" + "y" * 60 + "…'", "y" * 60 + "…") == text


@pytest.mark.parametrize(
    ("span", "empty"),
    [
        (RowRange(), False),
        (RowRange("a", "b"), False),
        (RowRange("a", "a"), True),
        (RowRange("b", "a"), True),
        (RowRange("a", "a\0"), False),
        (RowRange("a", "a\0", open=True), True),
        (RowRange("a", "a\0\0", open=True), False),
    ],
)
def test_an_empty_range_is_known(span: RowRange, empty: bool) -> None:
    assert span.empty is empty
