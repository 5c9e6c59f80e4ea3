"""`odm inspect` on Bigtable: what rows of other programs are taken for."""

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odm.backends.bigtable.client.native import Cell, Row
from odm.backends.bigtable.client.native_admin import ColumnFamily
from odm.cli.inspect.bigtable import RowFacts, infer_rows
from odm.cli.inspect.cells import CellGuess, guess
from odm.cli.inspect.columns import data_names
from odm.cli.inspect.design import Design
from odm.cli.inspect.row_keys import fixed_width, group_rows
from odm.cli.inspect.row_models import faults_of, source_of_rows
from odm.cli.inspect.source import source_of


def real(number: float) -> bytes:
    return struct.pack(">d", number)


def whole(number: int) -> bytes:
    return struct.pack(">q", number)


GUESSES: dict[str, tuple[str, list[bytes], CellGuess]] = {
    "floats": ("ASK", [real(600.6), real(0.0), real(-3.0)], CellGuess("float64be", "float")),
    "whole numbers": ("SIZE", [whole(1500), whole(-1), whole(0)], CellGuess("int64be", "int")),
    "a time by its name": ("QUOTE_TIME", [whole(1426535612156)], CellGuess("int64be", "datetime", 'epoch="ms"')),
    "seconds by their name": ("created", [b"1426535612"], CellGuess("text", "datetime", 'epoch="s"')),
    "a time or not": (
        "n",
        [whole(1426535612156)],
        CellGuess("int64be", "int", why="could be a time in milliseconds since 1970"),
    ),
    "zeros": ("n", [whole(0)], CellGuess("int64be", "int", why="zero in every row; could be a float")),
    "eight letters": ("name", [b"WXYZABCD", b"ABCDEFGH"], CellGuess("text", "str")),
    "eight other bytes": (
        "hash",
        [b"\xff\x80\0\1\2\3\4\5"],
        CellGuess("bytes", "bytes", why="8 bytes each, not plausible as a number"),
    ),
    "bytes": ("raw", [b"\xff", b"\0\1"], CellGuess("bytes", "bytes", why="1 to 2 bytes")),
    "text": ("name", ["Zürich\n".encode(), b""], CellGuess("text", "str")),
    "numbers as text": ("n", [b"12", b"-3"], CellGuess("text", "int")),
    "digits that are no number": ("zip", [b"0680", b"1200"], CellGuess("text", "str")),
    "decimals": ("price", [b"600.55", b"1"], CellGuess("text", "Decimal")),
    "decimals that would change": (
        "price",
        [b"600.60"],
        CellGuess("text", "str", why="numbers; as a Decimal, odm would write 1.50 back as 1.5"),
    ),
    "bools": ("open", [b"true", b"false"], CellGuess("text", "bool")),
    "days": ("due", [b"2023-10-03"], CellGuess("text", "date", 'format="%Y-%m-%d"')),
    "times": ("at", [b"2023-10-03T10:00:00Z"], CellGuess("text", "datetime", 'format="%Y-%m-%dT%H:%M:%SZ"')),
    "objects": ("doc", [b'{"a": 1}', b"{}"], CellGuess("json", "dict[str, Any]")),
    "lists": ("doc", [b"[1]"], CellGuess("json", "list[Any]")),
    "braces": ("doc", [b"{a}"], CellGuess("text", "str")),
    "a number that JSON does not have": ("doc", [b'{"a": NaN}'], CellGuess("text", "str")),
}


@pytest.mark.parametrize(("name", "values", "expected"), GUESSES.values(), ids=GUESSES)
def test_values_are_guessed(name: str, values: list[bytes], expected: CellGuess) -> None:
    assert guess(name, values) == expected


def forms(keys: Sequence[str], columns: Sequence[Sequence[str]] | None = None) -> list[str]:
    """The forms of keys, with the type of each value and what its format is."""
    sets = [{("d", one.encode()) for one in its} for its in columns or [["x"]] * len(keys)]
    shown = []
    for group in group_rows(keys, sets):
        parts = (p.text if p.text is not None else f"<{p.type} {p.options}{p.format}>" for p in group.parts)
        shown.append("".join(parts).replace(" >", ">"))
    return shown


def test_the_parts_of_row_keys_are_found() -> None:
    assert forms(["NASDAQ#ZXZZT#1426535612156"]) == ['<str>#<str>#<datetime epoch="ms">']
    assert forms(["0000987654#20170726", "4000000001#20170727"]) == ['<int 010>#<date format="%Y%m%d">']
    assert forms(["a:1", "b:22"]) == ["<str>:<int>"]
    assert forms(["a|1426535612", "b|1426535613"]) == ['<str>|<datetime epoch="s">']
    assert forms(["x#2015-03-01T10:00:00Z"]) == ['<str>#<datetime format="%Y-%m-%dT%H:%M:%SZ">']
    assert forms(["x#2015030110"]) == ['<str>#<datetime epoch="s">']  # 2033 as seconds: the first that fits
    assert forms(["g#201503", "g#201504"]) == ["<str>#<str>"]
    assert forms(["server1.bbb.com#1426535612045", "server1.bbb.com"]) == ['<str>#<datetime epoch="ms">', "<str>"]


def test_words_are_fixed_if_they_distinguish_rows_or_stand_in_very_many() -> None:
    keys = ["CUSTOMER#1#PROFILE", "CUSTOMER#2#PROFILE", "CUSTOMER#1#ORDER#7"]
    assert forms(keys) == ["CUSTOMER#<int>#PROFILE", "CUSTOMER#<int>#ORDER#<int>"]
    keys = ["CUSTOMER#ann#PROFILE", "CUSTOMER#bob#PROFILE", "CUSTOMER#ann#ORDER#7"]
    assert forms(keys) == ["CUSTOMER#<str>#PROFILE", "CUSTOMER#<str>#ORDER#<int>"]
    assert forms(["SONG#1", "SONG#2", "TUNE#3"], [["a"], ["a"], ["a"]]) == ["<str>#<int>"]
    assert forms(["SONG#1", "SONG#2", "USER#3"], [["title"], ["title"], ["mail"]]) == ["SONG#<int>", "USER#<int>"]
    assert forms([f"USER#{number}" for number in range(200)]) == ["USER#<int>"]


def test_keys_of_very_many_forms_are_divided_less_or_not_at_all() -> None:
    assert forms([f"com.site#{'/a' * number}" for number in range(1, 40)]) == ["<str>#<str>"]
    assert forms(["/a" * number for number in range(1, 40)]) == ["<str>"]


def test_keys_of_fixed_width_are_divided_or_described() -> None:
    assert forms(["000098765420170726", "000098765420170727"]) == ['<int 010><date format="%Y%m%d">']
    assert forms(["0071426535612045"]) == ['<int 03><datetime epoch="ms">']
    assert forms(["ABC20170726", "ABD20170726"]) == ["<str>"]
    assert fixed_width(["ABC20170726", "ABD20170726"]) == "11 characters each; the last 8 are a day"
    assert fixed_width(["ab1", "cd2"]) == "3 characters each, with letters and digits at the same places"
    assert fixed_width(["one", "other"]) == fixed_width(["same", "same"]) == ""


def test_names_that_are_data_are_found() -> None:
    assert data_names([b"0000", b"0015", b"name"], 1, 3) == {"": [b"0000", b"0015"]}
    assert data_names([b"pay#0680", b"pay#0789", b"note#1"], 1, 3) == {"pay#": [b"pay#0680", b"pay#0789"]}
    followers = [f"user{chr(97 + n % 26)}{chr(97 + n // 26)}".encode() for n in range(60)]
    assert data_names(followers, 40, 80) == {"": sorted(followers)}
    assert data_names(followers, 40, 2400) == {}
    assert data_names([b"\xff\xfe"], 1, 1) == {"": [b"\xff\xfe"]}


def row(key: str, **cells: bytes) -> Row:
    """A row; ``MD_ASK`` is the column ASK of family MD."""
    return Row(
        key.encode(), [Cell(name.partition("_")[0], name.partition("_")[2].encode(), cells[name]) for name in cells]
    )


def inferred(*rows: Row) -> Design:
    return infer_rows(RowFacts("rows", {"d": ColumnFamily()}, rows))


def test_a_table_becomes_a_module() -> None:
    cells: dict[str, Any] = {"MD_ASK": real(600.6), "MD_SYMBOL": b"ZXZZT", "MD_BID SIZE": whole(500)}
    design = inferred(
        row("NASDAQ#ZXZZT#1426535612156", **cells),
        row("NYSE#IBM#1426535612157", MD_SYMBOL=b"IBM", MD_ASK=real(1.5), d_1=b"x", d_2=b"y"),
    )
    assert source_of(design).partition("table=rows):\n")[2] == (
        "    part_1: str\n"
        '    at: Annotated[datetime, Stored(epoch="ms")]\n'
        '    ask: Annotated[float, Cell("MD:ASK", "float64be")]\n'
        '    symbol: Annotated[str, Cell("MD:SYMBOL", "text")]\n'
        '    bid_size: Annotated[int | None, Cell("MD:BID SIZE", "int64be")] = None\n'
        '    d: Annotated[dict[str, str], Columns, Cell("d:", "text")] = {}\n'
        "\n"
        '    primary = PrimaryKey("{part_1}#{symbol}", "{at}")\n'
        "\n"
        "    # d: each column of family d that no other field names is an entry, and its name the key, as in 1, 2. A\n"
        "    # put deletes the entries that it does not have.\n"
    )


def test_keys_with_and_without_a_sort_key_are_one_template_each() -> None:
    design = inferred(row("server1.bbb.com#1426535612045", d_a=b"x"), row("server1.bbb.com", d_a=b"x"))
    assert [entity.patterns[0].templates for entity in design.entities] == [("{part_1}#{at}",), ("{part_1}",)]
    assert "each is one template" in design.notes[0]
    [entity] = inferred(row("#meta", d_a=b"x"), row("#info", d_a=b"x")).entities
    assert entity.patterns[0].templates == ("#{part_1}",)


def test_the_separator_of_partition_and_sort_key_is_found() -> None:
    design = inferred(row("a|b|1426535612045", d_a=b"x"), row("c|d|1426535612045", d_a=b"x"))
    assert design.entities[0].patterns[0].templates == ("{part_1}|{part_2}", "{at}")
    assert '    row_style="verbatim",\n    row_key_join="|",\n)' in source_of(design)


def test_a_part_that_is_empty_in_some_keys_is_one_that_may_be_empty() -> None:
    design = inferred(*(row(f"{host}|{space}|{at}", d_a=b"x") for host in "ab" for space in ("", "in") for at in "uv"))
    assert design.entities[0].patterns[0].templates == ("{part_1}|{part_2:empty}", "{part_3}")


def test_keys_of_fixed_width_have_no_separator() -> None:
    design = inferred(row("000098765420170726", d_a=b"x"), row("000098765420170727", d_a=b"x"))
    assert design.entities[0].patterns[0].templates == ("{part_1:010}", "{day}")
    assert '    row_key_join="",\n' in source_of(design)


def test_a_table_without_rows_is_described() -> None:
    assert "The table has no rows" in source_of(inferred())


def test_columns_whose_names_are_data_are_a_dict() -> None:
    quarters = [f"d_{hour:02}{minute:02}" for hour in range(24) for minute in (0, 15, 30, 45)]
    named = row("0000987655#20170726", d_name=b"x")
    day = row("0000987654#20170726", **dict.fromkeys(quarters, real(12.34)))
    for rows in ((day, named), (day,)):
        source = source_of_rows(RowFacts("shop", {}, rows))
        assert '    d: Annotated[dict[str, float], Columns, Cell("d:", "float64be")] = {}\n' in source
        assert source.count("float64be") == 1
        assert "as in 0000, 0015, 0030, …, 2345" in source.replace("\n    # ", " ")


DATA: dict[str, tuple[dict[str, dict[str, bytes]], list[str]]] = {
    "prefixes": (
        {"a#1": {"f:pay#0680": whole(1), "f:pay#0681": whole(2), "f:note#1": b"x", "f:note#2": b"y", "f:n": b"z"}},
        [
            'note: Annotated[dict[str, str], Columns, Cell("f:note#", "text")] = {}',
            'pay: Annotated[dict[str, int], Columns, Cell("f:pay#", "int64be")] = {}',
            'n: Annotated[str, Cell("f:n", "text")]',
        ],
    ),
    "a prefix that begins with another": (
        {"a#1": {"f:p#1": b"x", "f:p#2": b"x", "f:p#q#1": b"x", "f:p#q#2": b"y"}},
        ['p: Annotated[dict[str, str], Columns, Cell("f:p#", "text")] = {}'],
    ),
    "a name without a word": (
        {"a#1": {"f:2026-01-05T10": b"1.5", "f:2026-01-05T11": b"2"}},
        ['f: Annotated[dict[str, Decimal], Columns, Cell("f:", "text")] = {}'],
    ),
    "buckets": (
        {"a#1": {f"f:m{minute:02}": whole(minute) for minute in range(0, 60, 5)}},
        ['f: Annotated[dict[str, int], Columns, Cell("f:", "int64be")] = {}'],
    ),
    "buckets and a name": (
        {"a#1": {**{f"f:m{minute:02}": whole(minute) for minute in range(0, 60, 5)}, "f:total": whole(1)}},
        [
            'm: Annotated[dict[str, int], Columns, Cell("f:m", "int64be")] = {}',
            'total: Annotated[int, Cell("f:total", "int64be")]',
        ],
    ),
    "few names with a number": (
        {"a#1": {f"f:line{number}": b"x" for number in range(1, 5)}},
        ['line1: Annotated[str, Cell("f:line1", "text")]'],
    ),
    "times": (
        {"a#1": {"f:1": whole(1426535612156), "g:1": b"2024-01-01", "g:2": b"2024-01-02"}},
        [
            'f: Annotated[dict[str, int], Columns, Cell("f:", "int64be")] = {}',
            'g: Annotated[dict[str, date], Columns, Stored(format="%Y-%m-%d"), Cell("g:", "text")] = {}',
        ],
    ),
    "objects": (
        {"a#1": {"f:1": b'{"a": 1}', "f:2": b"{}"}},
        ['f: Annotated[dict[str, dict[str, Any]], Columns, Cell("f:", "json")] = {}'],
    ),
    "values of several forms": (
        {"a#1": {"f:1": b"\xff", "f:2": b"x"}},
        ['f: Annotated[dict[str, bytes], Columns, Cell("f:", "bytes")] = {}'],
    ),
    "a name that is not text": (
        {"a#1": {"f:\udcff": b"x", "f:pay#1": b"x", "f:pay#2": b"x", "f:n": b"x"}},
        ['pay: Annotated[dict[str, str], Columns, Cell("f:pay#", "text")] = {}', "as some are not text: \\\\xff"],
    ),
}


@pytest.mark.parametrize("which", DATA)
def test_groups_of_names_that_are_data(which: str) -> None:
    found, wanted = DATA[which]
    source = source_of_rows(RowFacts("any", {}, tuple(_row(key, cells) for key, cells in found.items())))
    for line in wanted:
        assert line in source.replace("\n    # ", " ")


def _row(key: str, cells: dict[str, bytes]) -> Row:
    parts = ((name.partition(":"), value) for name, value in cells.items())
    return Row(key.encode(), [Cell(p[0], p[2].encode("utf-8", "surrogateescape"), value) for p, value in parts])


def test_rows_whose_columns_are_all_data_that_is_not_text_have_no_class() -> None:
    """No field names such a column, so a class would read no row; a comment says what the rows have."""
    names = [f"{second:04}".encode() + b"\xff" for second in range(1000)]
    seconds = [Row(f"host{host}#20170726".encode(), [Cell("d", name, b"x") for name in names]) for host in (1, 2)]
    source = source_of_rows(RowFacts("shop", {}, tuple(seconds)))
    assert "(Entity" not in source
    comment = " ".join(line.removeprefix("# ") for line in source.splitlines() if line.startswith("# "))
    assert "2 rows such as host1#20170726 have no class" in comment
    assert "Family d: 1000 columns whose names are data" in comment
    others = [row(f"USER#{user}#PROFILE", d_name=b"Ann", d_mail=b"a") for user in range(3)]
    source = source_of_rows(RowFacts("shop", {}, (*seconds, *others)))
    assert source.count("(Entity") == 1
    assert "2 rows such as host1#20170726 have no class" in source.replace("\n# ", " ")


def test_a_column_that_is_not_written_as_it_was_has_no_field() -> None:
    """A model is used before it is called good: each row is read by its key, and put."""
    facts = RowFacts("shop", {}, (row("a#1", d_x=b"1", d_y=b"abc"), row("a#2", d_x=b"2", d_y=b"x")))
    design = infer_rows(facts)
    assert not [*faults_of(source_of(design), design, facts.rows)]
    [entity] = design.entities
    made = next(field for field in entity.fields if field.name == "y")
    made.type, made.cell = "int", ("d:y", "text")
    [fault, *_] = faults_of(source_of(design), design, facts.rows)
    assert "y" in fault.text
    made.type, number = "str", next(field for field in entity.fields if field.name == "x")
    number.type = "float"
    facts = RowFacts("shop", {}, (row("a#1", d_x=b"1.50", d_y=b"abc"), row("a#2", d_x=b"2", d_y=b"x")))
    assert "d:x" in {fault.attribute for fault in faults_of(source_of(design), design, facts.rows)}


TAKEN = ("list", "str", "int", "bool", "bytes", "dict", "Entity", "Cell", "class", "_t", "_v", "_ttl")


@pytest.mark.parametrize("name", TAKEN)
def test_a_column_may_have_any_name(name: str) -> None:
    rows = [row(f"a#{at}", **{f"d_{name}": b'["x"]', "d_n": b"1.5", "d_z": b"2024-01-01"}) for at in (0, 1)]
    source = source_of_rows(RowFacts("shop", {}, (*rows, row("a#3", d_n=b"2.5"))))
    assert f'Cell("d:{name}", "json")' in source
    names: dict[str, Any] = {"__name__": "models"}
    exec(source, names)
    assert names["shop"].compile().entities


KEYS = (
    "u#1",
    "u#2",
    "USER#a",
    "a",
    "#META#",
    "2024-01-01T00:00:00Z",
    "o#1#line",
    "##",
    "a#",
    "é#ü",
    "\n",
    "a#{b}",
    "a:1#2",
)
NAMES = (
    b"",
    b"a",
    b"A",
    b"a:b",
    b"0000",
    b'x"y',
    b"\xff",
    b"class",
    b"date",
    b"Any",
    b"a\nb",
    b"primary",
    b"p#1",
    b"p#2",
    b"p#q#3",
    b"2026-01-05T10",
    b"_t",
    *(b"m%02d" % number for number in range(9)),
)
VALUES = (
    b"",
    b"x",
    b"-1",
    b"0680",
    b"600.60",
    b"1.5",
    b"true",
    b'{"a": 1.50}',
    b'{"a": NaN}',
    b"[1e999]",
    b"2024-01-01",
)
numbers = st.one_of(st.floats(), st.integers(-(2**63), 2**63 - 1)).map(
    lambda n: whole(n) if isinstance(n, int) else real(n)
)
cells = st.tuples(st.sampled_from(("f", "MD", "a-b.c")), st.sampled_from(NAMES))
tables = st.dictionaries(
    st.sampled_from(KEYS),
    st.dictionaries(cells, st.one_of(st.sampled_from(VALUES), numbers), min_size=1, max_size=9),
    min_size=1,
    max_size=6,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50)
@given(tables)
def test_models_of_any_rows_read_them(found: dict[str, dict[tuple[str, bytes], bytes]]) -> None:
    rows = (Row(key.encode(), [Cell(*at, value) for at, value in sorted(its.items())]) for key, its in found.items())
    assert source_of_rows(RowFacts("any", {}, tuple(rows)))  # it raises an error if they do not


LONG_MAX = 2**63 - 1
MILLIS_OF_ROWS = [1_700_000_000_000 + step * 60_000 for step in range(20)]
BINARY_KEYS: dict[str, tuple[list[bytes], str]] = {
    "text and a time": (
        [f"user{at % 3}#".encode() + struct.pack(">q", at) for at in MILLIS_OF_ROWS],
        'PrimaryKey("{part_1}", "{at:int64be}")',
    ),
    "several texts and a time subtracted from the highest number": (
        [f"a/zo\u00eb{at % 3}/".encode() + struct.pack(">q", LONG_MAX - at) for at in MILLIS_OF_ROWS],
        'PrimaryKey("{part_1}/{part_2}", "{at:int64be:desc}")',
    ),
    "a hash and seconds": (
        [bytes([at % 256, 255, 128, at % 7]) + struct.pack(">q", at // 1000) for at in MILLIS_OF_ROWS],
        'PrimaryKey("{head:bytes4}", "{at:int64be}")',
    ),
    "UUIDs": ([bytes([255 - at, 200]) * 8 for at in range(20)], 'PrimaryKey("{row_key:bytes}")'),
    "numbers after text of other lengths": (
        [b"a" * length + b"#" + struct.pack(">i", length) for length in range(1, 20)],
        'PrimaryKey("{row_key:bytes}")',
    ),
    "some that are text": ([b"abc", b"ab\xff", b"\0"], 'PrimaryKey("{row_key:bytes}")'),
}


@pytest.mark.parametrize(("keys", "primary"), BINARY_KEYS.values(), ids=BINARY_KEYS)
def test_row_keys_with_binary_parts(keys: list[bytes], primary: str) -> None:
    rows = tuple(Row(key, [Cell("d", b"note", b"n"), Cell("d", b"size", whole(7))]) for key in keys)
    source = source_of_rows(RowFacts("binary", {"d": ColumnFamily()}, rows))
    assert primary in source
    assert ("if you know its parts" in source) == ("bytes" in primary)


@given(st.sets(st.binary(min_size=1, max_size=12), min_size=1, max_size=6))
def test_models_of_any_row_keys_read_them(keys: set[bytes]) -> None:
    """The models are checked before they are returned."""
    rows = tuple(Row(key, [Cell("d", b"note", b"n")]) for key in sorted(keys))
    assert "PrimaryKey(" in source_of_rows(RowFacts("binary", {"d": ColumnFamily()}, rows))
