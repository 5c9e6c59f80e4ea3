"""The linter: for each rule a table that breaks it and one that just does not; and its fixes are right."""

import importlib.util
import re
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from odm import BadValue, Table
from odm.backends.bigtable.admin.schema import check
from odm.errors import SchemaError
from odm.extend import LintFinding
from odm.schema.lint.finding import RULES
from tests.schema.lint_cases import CASES, ORDER, Case

HEAD = """
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Literal
from uuid import UUID, uuid4

from pydantic import UUID4, UUID7, Field

from odm import TTL, AccessPattern, Entity, MaxAge, PrimaryKey, Shards, Stored, Table, field

shop = Table("shop")

"""

LoadTable = Callable[[str], Table]

_numbers = count()


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadTable:
    """A table of a module of this source, in a file: declarations have lines then."""

    def load_source(source: str) -> Table:
        path = tmp_path / f"linted{next(_numbers)}.py"
        path.write_text(source if source.startswith(HEAD) else HEAD + source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)  # where `inspect` looks
        spec.loader.exec_module(module)
        table = module.shop
        assert isinstance(table, Table)
        return table

    return load_source


IDS = [f"{case.rule}-{number}" for number, case in enumerate(CASES)]


def rules(table: Table) -> list[tuple[str, str]]:
    """What was found, and where."""
    return [(finding.rule, finding.where) for finding in table.lint()]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_rule_finds_what_breaks_it_and_not_what_just_does_not(case: Case, load: LoadTable) -> None:
    assert rules(load(case.source(case.has))).count((case.rule, case.where)) == 1
    left = dict(rules(load(case.source(case.has_not))))
    assert left.keys() <= {"missing-ttl", case.leaves} - {case.rule}


def test_every_rule_is_tried() -> None:
    assert {case.rule for case in CASES} | {
        *("ambiguous-row-keys", "filtered-reads", "text-order", "unbounded-row", "unstable-value", "unused-ignore"),
    } == set(RULES)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_line_to_change_is_right(case: Case, load: LoadTable) -> None:
    finding = next(one for one in load(case.source(case.has)).lint() if one.rule == case.rule)
    lines = [line for line in finding.fix.splitlines() if re.match(r"\w+ = (PrimaryKey|AccessPattern)\(", line)]
    assert finding.file is not None
    assert finding.line is not None
    source = Path(finding.file).read_text(encoding="utf-8").splitlines()
    if lines:
        assert source[finding.line - 1].startswith(f"    {finding.where.split('.')[1]} = ")
        source[finding.line - 1] = "\n".join(f"    {line}" for line in lines)
        fixed = load("\n".join(source) + "\n")
        assert case.rule not in dict(rules(fixed))
        new = {rule for rule, _ in rules(fixed)} - {rule for rule, _ in rules(load(case.source(case.has)))}
        assert new <= {"missing-ttl"}  # of what is a plain time series only now
    else:
        assert case.rule in (
            "hot-partition",
            "monotonic-key",
            "equal-indexes",
            "long-names",
            "missing-ttl",
            "deleted-by-age",
        )


@pytest.mark.parametrize(
    ("sort", "options", "is_found"),
    [
        ("C#{c}", "", True),
        ("C#{c}", ", keep=10_000", False),
        ("C#{c}", ", keep=10_001", True),
        ("C#{n}", "", False),
        ("META", "", False),
    ],
)
def test_rows_without_bound(load: LoadTable, sort: str, options: str, is_found: bool) -> None:
    source = (
        'shop = Table("shop", layout="row_per_partition")\n'
        f"class One(Entity, table=shop{options}):\n    v: str\n    c: str\n"
        "    n: Annotated[int, Field(ge=0, lt=10_000)]\n"
        f'    primary = PrimaryKey("V#{{v}}", "{sort}")\n'
    )
    assert (("unbounded-row", "One.primary") in rules(load(source))) is is_found
    wide = ', layout="row_per_partition"'
    assert ("unbounded-row", "One.primary") not in rules(load(source.replace(wide, "")))


def two(first: str, second: str) -> str:
    """Two entities with these keys."""
    fields = "c: str\n    o: str\n    n: int\n    at: datetime"
    return (
        f"class One(Entity, table=shop):\n    {fields}\n    primary = PrimaryKey({first})\n\n"
        f"class Two(Entity, table=shop):\n    {fields}\n    primary = PrimaryKey({second})\n"
    )


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ('"C#{c}", "O#{o}"', '"C#{c}", "O#{o}#N#{n}"', ["One.primary"]),  # orders between their lines
        ('"C#{c}", "O#{o}"', '"C#{c}", "N#{o}#{n}"', []),
        ('"C#{c}", "{n}"', '"C#{c}", "PROFILE"', []),  # one among many
        ('"C#{c}", "{n}"', '"C#{c}", "O#{o}"', ["One.primary"]),
        ('"C#{c}", "{o}#A"', '"C#{c}", "N#{n}"', ["One.primary"]),
        ('"C#{c}", "{o}"', '"{c}#{o}", "X#{n}"', []),  # a c of "C" is not meant
    ],
)
def test_filtered_reads(first: str, second: str, found: list[str], load: LoadTable) -> None:
    told = rules(load(two(first, second)))
    assert [where for rule, where in told if rule == "filtered-reads"] == found


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ('"TENANT#{c}", "A"', '"TENANT#{c}#USER#{o}", "B"', True),
        ('"TENANT#{c}", "A"', '"USER#{c}#{o}", "B"', False),
        ('"{c}", "A"', '"USER#{c}", "B"', True),
        ('"USER#{c}", "A"', '"{c}", "B"', True),
        ('"{c}"', '"{c}#{o}"', False),  # no sort key: the row key is the partition
    ],
)
def test_ambiguous_row_keys_are_those_that_bigtable_refuses(
    first: str, second: str, found: bool, load: LoadTable
) -> None:
    table = load(two(first, second))
    told = [finding for finding in table.lint() if finding.rule == "ambiguous-row-keys"]
    assert len(told) is int(found)
    if not found:
        check(table.compile())
        return
    with pytest.raises(SchemaError) as refused:
        check(table.compile())
    assert told[0].fix in str(refused.value)
    fixed = re.findall(r'"([^"]+)" in (\w+)', told[0].fix)
    given = {"One": first, "Two": second} | {name: f'"{partition}", "X"' for partition, name in fixed}
    assert "ambiguous-row-keys" not in dict(rules(load(two(given["One"], given["Two"]))))


DESK = """
shop = Table("desk"{0})

class Fields(Entity):
    t: str
    k: str

class Tenant(Fields, table=shop):
    primary = PrimaryKey("TENANT#{{t}}", "PROFILE")

class User(Fields, table=shop):
    primary = PrimaryKey("TENANT#{{t}}", "USER#{{k}}")

class Ticket(Fields, table=shop):
    primary = PrimaryKey("{1}TENANT#{{t}}#TICKET#{{k}}", "TICKET")

class Comment(Fields, table=shop):
    primary = PrimaryKey("{1}TENANT#{{t}}#TICKET#{{k}}", "COMMENT")

class Note(Fields, table=shop):
    primary = PrimaryKey("{2}TENANT#{{t}}#NOTE#{{k}}", "NOTE")

class Old(Fields, table=shop):
    primary = PrimaryKey("TICKET#{{t}}", "X")
"""


def test_ambiguous_row_keys_of_a_table_are_one_finding_whose_fixes_keep_item_collections(load: LoadTable) -> None:
    [finding] = load(DESK.format("", "", "")).lint()
    assert (finding.rule, finding.where) == ("ambiguous-row-keys", "Ticket.primary")
    assert 'Tenant, User ("TENANT#{t}") and Ticket, Comment ("TENANT#{t}#TICKET#{k}") and Note (' in finding.what
    assert finding.fix.startswith('declare Table("desk", row_key_join="##") if nothing is stored')
    assert '"TICKETS#TENANT#{t}#TICKET#{k}" in Ticket, Comment, "NOTE#TENANT#{t}#NOTE#{k}" in Note' in finding.fix
    for fixed in (DESK.format(', row_key_join="##"', "", ""), DESK.format("", "TICKETS#", "NOTE#")):
        table = load(fixed)
        assert table.lint() == []
        check(table.compile())


HOT = (
    "class Order(Entity, table=shop):{0}\n    order_id: str\n    primary = PrimaryKey('{{order_id}}')\n"
    "    listed = AccessPattern({1}\n        'ORDERS',\n        '{{order_id}}',\n    ){2}\n"
)
SILENT = "  # odm: ignore[hot-partition]"


@pytest.mark.parametrize("where", [(SILENT, "", ""), ("", SILENT, ""), ("", "", f"{SILENT} a hundred a day")])
def test_a_comment_silences_a_rule(where: tuple[str, str, str], load: LoadTable) -> None:
    assert rules(load(HOT.format("", "", ""))) == [("hot-partition", "Order.listed")]
    assert rules(load(HOT.format(*where))) == []


CONSTANT = "class Setting(Entity, table=shop):\n    value: str\n    primary = PrimaryKey('SETTING', 'ALL'){0}\n"


def test_compiling_warns_of_a_constant_key(load: LoadTable) -> None:
    table = load(CONSTANT.format(""))
    with pytest.warns(UserWarning, match=r"^Setting\.primary: the key \"SETTING#ALL\" has no placeholder, .* ignore\["):
        table.compile()
    assert rules(table) == [("constant-key", "Setting.primary")]


def test_a_single_item_on_purpose_says_so(load: LoadTable) -> None:
    table = load(CONSTANT.format("  # odm: ignore[constant-key]  one for the program"))
    table.compile()  # a warning would fail the test
    assert rules(table) == []


def test_an_entity_without_fields_has_a_constant_key(load: LoadTable) -> None:
    table = load("class Mark(Entity, table=shop):\n    primary = PrimaryKey('MARK', 'X')\n")
    table.compile()
    assert rules(table) == []


def test_a_comment_silences_no_other_rule_and_is_told_when_it_silences_nothing(load: LoadTable) -> None:
    source = HOT.format("", "  # odm: ignore[missing-ttl, hot]", "")
    table = load(source)
    assert rules(table) == [("hot-partition", "Order.listed"), ("unused-ignore", "Order.listed")]
    assert table.lint()[1].what.endswith("suppresses nothing, because there is no rule 'hot'")
    assert table.lint()[1].line == (HEAD + source).split("# odm:")[0].count("\n") + 1
    assert rules(load(HOT.format(SILENT, SILENT, ""))) == []  # each suppresses it


def test_what_is_inherited_stands_in_the_base(load: LoadTable) -> None:
    base = "class Listed(Entity):\n    order_id: str\n    listed = AccessPattern('ORDERS', '{order_id}')"
    order = "\n\nclass Order(Listed, table=shop):\n    primary = PrimaryKey('{order_id}')\n"
    [finding] = load(base + order).lint()
    assert finding.line == HEAD.count("\n") + 3
    assert load(base + SILENT + order).lint() == []


def test_without_source_there_are_findings_without_places() -> None:
    names: dict[str, object] = {"__name__": "nowhere"}
    exec(HEAD + HOT.format("", SILENT, ""), names)
    table = names["shop"]
    assert isinstance(table, Table)
    [finding] = table.lint()
    assert (finding.rule, finding.file, finding.line) == ("hot-partition", None, None)


def test_what_matters_on_one_cloud(load: LoadTable) -> None:
    table = load(next(case.source(case.has) for case in CASES if case.rule == "monotonic-key"))
    assert [finding.rule for finding in table.lint(backend="bigtable")] == ["monotonic-key"]
    assert table.lint(backend="dynamodb") == []
    assert table.lint(ignore=["monotonic-key"]) == []


@pytest.mark.parametrize("arguments", [{"ignore": ["hot"]}, {"ignore": "hot-partition"}, {"backend": "memory"}])
def test_what_can_not_be_left_out(arguments: dict[str, object], load: LoadTable) -> None:
    table = load(HOT.format("", "", ""))
    with pytest.raises(BadValue, match="lint: "):
        table.lint(**arguments)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_the_worst_comes_first(load: LoadTable) -> None:
    table = load("class Track(Entity, table=shop):\n    at: datetime\n    primary = PrimaryKey('TRACKS', '{at:s}')\n")
    found = table.lint()
    assert [finding.severity for finding in found] == ["error", "warning", "advice"]
    assert all(isinstance(finding, LintFinding) and finding.source.startswith("https://docs.") for finding in found)


def order(keys: str, fields: str = "order_id: str; placed_at: datetime", options: str = "") -> str:
    """An Order with these declarations."""
    return Case("", "", fields, "", "", options=options).source(keys)


LISTED = 'primary = PrimaryKey("{order_id}"); listed = AccessPattern('


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        (order(f'{LISTED}"ALL", when=field("order_id") > "a", index="gsi1")'), 'index="gsi1", when=...'),
        (order(f'{LISTED}"ALL", "{{placed_at}}", projection="keys")'), ", by=\"order_id\"), projection='keys'"),
        (  # None gives no shard
            order(f'{LISTED}"ALL", "{{user}}")', "order_id: str; user: str | None = None"),
            'AccessPattern("ALL", "{user}", shards=Shards(8, by="order_id"))',
        ),
        (  # a list stays one: without a time in it, shards in place of a promotion
            order('primary = PrimaryKey("ALL", "{name}")', "name: str; user_id: str"),
            'PrimaryKey("ALL", "{name}", shards=Shards(8, by="name"))',
        ),
        (
            order('primary = PrimaryKey("ALL", "{at}")', "text: str; user: str; at: datetime; sensor_id: str"),
            'PrimaryKey("ALL#{sensor_id}", "{at}")',
        ),
        (
            order('primary = PrimaryKey("ALL", "{at}#{sensor}")', "at: datetime; sensor: str; user_id: str"),
            'PrimaryKey("ALL#{sensor}", "{at}")',
        ),
        (
            order('primary = PrimaryKey("ALL", "{at}")', "text: str; tip: str = ''; user: str; at: datetime"),
            'PrimaryKey("ALL#{user}", "{at}")',
        ),
        (
            order('primary = PrimaryKey("ALL", "{at}")', "text: str; user: str | None; at: datetime"),
            "begin the partition with a field that differs",
        ),
        (
            order('primary = PrimaryKey("DAY#{day}", "{order_id}")', "day: date; order_id: str"),
            'PrimaryKey("DAY#{day}", "{order_id}", shards=Shards(8, by="order_id"))',
        ),
        (
            order('primary = PrimaryKey("DAY#{day}")', "day: date; order_id: str"),
            'PrimaryKey("DAY#{day}", "{order_id}", shards=Shards(8, by="order_id"))',
        ),
        (
            order('primary = PrimaryKey("AT#{placed_at}")'),
            'PrimaryKey("AT", "{placed_at}#{order_id}", shards=Shards(8, by="order_id"))',
        ),
        (
            order('primary = PrimaryKey("READ#{at}#{user}")', "at: datetime; user: str"),
            'PrimaryKey("READ#{user}", "{at}")',
        ),
        (
            order('primary = PrimaryKey("{order_id}"); by_time = AccessPattern("{placed_at}")'),
            'AccessPattern("ORDER", "{placed_at}", shards=Shards(8, by="order_id"))',
        ),
    ],
)
def test_the_fix_fits_what_is_asked(source: str, fix: str, load: LoadTable) -> None:
    fixes = [one.fix for one in load(source).lint() if one.rule in ("hot-partition", "monotonic-key")]
    assert [fix in one for one in fixes] == [True]


def test_on_bigtable_a_hot_partition_is_one_that_sorts_by_time(load: LoadTable) -> None:
    by_name = order(f'{LISTED}"ALL", "{{order_id}}")')
    assert [one.backends for one in load(by_name).lint()] == [("dynamodb",)]
    assert load(by_name).lint(backend="bigtable") == []
    for listed in ('"ALL", "{placed_at}"', '"DAY#{placed_at:%Y%m%d}", "{order_id}"'):
        assert [one.backends for one in load(order(f"{LISTED}{listed})")).lint()] == [("dynamodb", "bigtable")]


def test_a_number_that_leads_several_keys_is_told_once(load: LoadTable) -> None:
    keys = 'primary = PrimaryKey("{order_id}"); again = AccessPattern("AGAIN#{order_id}")'
    assert rules(load(order(keys, "order_id: int"))) == [("monotonic-key", "Order.primary")]


def test_a_local_index_has_the_partitions_of_the_table(load: LoadTable) -> None:
    keys = 'primary = PrimaryKey("ALL", "{order_id}"); late = AccessPattern("ALL", "{placed_at}", local=True)'
    assert rules(load(order(keys, options=", keep=9"))) == [("hot-partition", "Order.primary")]


def test_items_that_are_alike_in_several_ways_are_told_once(load: LoadTable) -> None:
    keys = 'primary = PrimaryKey("{customer_id}", "{placed_at:s}")'
    assert rules(load(order(keys, ORDER))) == [("non-unique-key", "Order.primary")]


def test_what_is_filtered_lies_in_the_same_index(load: LoadTable) -> None:
    fields = "class {0}(Entity, table=shop):\n    c: str\n    n: int\n"
    keys = "    primary = PrimaryKey('{0}#{{n}}')\n    listed = AccessPattern('C#{{c}}', '{{n}}#{0}', index={1!r})\n"
    for other, found in (("gsi1", [("filtered-reads", "A.listed"), ("filtered-reads", "B.listed")]), ("gsi2", [])):
        source = (fields + keys).format("A", "gsi1") + (fields + keys).format("B", other)
        assert [one for one in rules(load(source)) if one[0] == "filtered-reads"] == found
    three = "".join((fields + keys).format(*one) for one in (("A", "gsi1"), ("B", "gsi2"), ("C", "gsi1")))
    told = [finding.what for finding in load(three).lint() if finding.rule == "filtered-reads"]
    assert ["B" in what for what in told] == [False, False]


@pytest.mark.parametrize(
    ("sort", "options", "found"), [("{at}", "", True), ("{at}", ", keep=9", False), ("{at:%Y%m%d}", "", False)]
)
def test_a_series_that_stays_small_needs_no_ttl(sort: str, options: str, found: bool, load: LoadTable) -> None:
    told = rules(load(order(f'primary = PrimaryKey("{{sensor}}", "{sort}")', "sensor: str; at: datetime", options)))
    assert ("missing-ttl" in dict(told)) is found


def test_the_newest_are_not_kept_where_shards_are(load: LoadTable) -> None:
    fields = "at: datetime; user: str"
    salted = 'primary = PrimaryKey("SERIES", "{at}#{user}", shards=Shards(3, by="at"))'
    [finding] = load(order(salted, fields)).lint()
    assert (finding.rule, finding.fix) == ("missing-ttl", "expires_at: Annotated[datetime, TTL]")
    listed = 'primary = PrimaryKey("ALL", "{order_id}")'
    kept, free = (
        next(one.fix for one in load(order(listed, "order_id: str", options)).lint() if one.rule == "hot-partition")
        for options in (", keep=9", "")
    )
    assert "shards=" in free
    assert "shards=" not in kept


def test_short_names_are_free_ones(load: LoadTable) -> None:
    long = "; ".join(f"{letter * 130}_b: str" for letter in "ac")
    [finding] = load(order('primary = PrimaryKey("{ab}")', f"ab: str; {long}; {'a' * 129}_b: str")).lint()
    assert [line.split("Stored")[1] for line in finding.fix.splitlines()] == ['("ab2")]', '("cb")]', '("ab3")]']


def test_the_worst_of_all_entities_comes_first(load: LoadTable) -> None:
    visit = order('primary = PrimaryKey("T#{at:s}")', "at: datetime").replace("Order", "Visit")
    found = load(order(f'{LISTED}"ALL", "{{placed_at}}")') + "\n" + visit).lint()
    assert [(finding.rule, finding.where) for finding in found][:2] == [
        ("lossy-key", "Visit.primary"),
        ("hot-partition", "Order.listed"),
    ]


def test_a_declaration_that_replaces_another_has_its_own_comments(load: LoadTable) -> None:
    base = f"class Listed(Entity):\n    order_id: str\n    listed = AccessPattern('ORDERS', '{{order_id}}'){SILENT}\n"
    own = "    listed = AccessPattern('ALL', '{order_id}')\n"
    made = "\nclass Order(Listed, table=shop):\n    primary = PrimaryKey('{order_id}')\n"
    assert rules(load(base + made)) == []
    assert rules(load(base + made + own)) == [("hot-partition", "Order.listed")]


NOTED = """
from odm.extend import Companion

class Note(Companion):
    def entities(self, entity):
        return self.make(entity, Entity, {"note": str}, {"primary": PrimaryKey("NOTES", "{note}")}),

class Order(Entity, table=shop):
    order_id: str
    primary = PrimaryKey("ORDER#{order_id}", "ORDER")
    note = Note()
"""


def test_what_a_companion_stores_is_not_the_users_design(load: LoadTable) -> None:
    table = load(NOTED)
    assert [*table.compile().entities] == ["Order", "Order.note"]
    assert table.lint() == []
