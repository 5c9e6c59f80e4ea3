"""`odm import` and `odm inspect` on hostile data: nothing in it becomes code; what is unusable is an OdmError."""

import ast
import json
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.cloud.bigtable_admin_v2 import types as admin_types
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from odm import BackendError, BadValue, OdmError
from odm.backends.bigtable.client.native import Cell, Row
from odm.backends.bigtable.client.native_admin import ColumnFamily
from odm.cli.inspect import workbench
from odm.cli.inspect.bigtable import RowFacts
from odm.cli.inspect.facts import facts_of
from odm.cli.inspect.grammar import parse
from odm.cli.inspect.models import models_of
from odm.cli.inspect.row_models import source_of_rows
from odm.cli.inspect.texts import form_of, positions_alike, prefixes_of, words_of
from odm.cli.inspect.workbench import facts_in
from odm.cli.usage import BadUsage
from tests.backends.bigtable.server import rows as bigtable_rows
from tests.backends.bigtable.server import serving as serving_bigtable
from tests.backends.dynamodb.canned import Answer, serving
from tests.cli.conftest import Application, Run
from tests.effort import times

pytestmark = pytest.mark.slow

CODE = 'shop"""\nimport os; os.system("touch ran")\n"""'
"""As the name of a table in the docstring of a module, it ends the docstring and then runs a command."""

TEXTS = (
    CODE,
    '"""',
    "'''",
    '"',
    "'",
    "\\",
    '\\"',
    "a\\",
    "\n",
    "\r",
    "\nimport os",
    "x\nimport os",
    "#",
    "# odm: ignore[hot-partition]",
    "a\0b",
    "\0",
    "a\ud800",
    "\u202e",
    "\u2028x",
    "\x1b[2J",
    "{pk}",
    "{",
    "}",
    "{0.__class__}",
    "%s",
    "$n",
    '"); import os; os.system("touch ran") #',
    "__import__('os').system('touch ran')",
    "Any",
    "str",
    "date",
    "set",
    "class",
    "None",
    "Table",
    "Stored",
    "primary",
    "model_config",
    "__init_subclass__",
    "_t",
    "",
    " ",
    "é",
    "x" * 300,
    "shop",
)
texts = st.sampled_from(TEXTS) | st.text(max_size=8) | st.text(st.characters(), max_size=3)
"""Any text, with lone surrogates."""

legal = texts.filter(lambda text: text != "" and text.isascii() | text.isprintable())
"""Text that an attribute may have as its name, and its value too."""

PLACES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
"""Any JSON."""


class Words(NamedTuple):
    """What tables consist of.

    Attributes:
        names: of attributes.
        services: of tables and indexes.
        texts: values.
        numbers: texts of numbers.
    """

    names: st.SearchStrategy[str]
    services: st.SearchStrategy[str]
    texts: st.SearchStrategy[str]
    numbers: st.SearchStrategy[str]


NUMBERS = ("0", "-1", "1.5", "1E+3", "12345678901234567890123456789012345678")
WRONG = ("1e999999999", "-1e-999999999", "1e99999999999999999999", "x", "", "NaN", "Infinity", "1_0", "²", "9" * 5000)
INDEXES = ("GSI1", "str", "Table", "by-date", "date", "1.2", "...", "---")
KEYS = ("u#1", "u#2", "USER#a#b", "#META#", "2024-01-01T00:00:00Z", "o#1#line")
LEGAL = Words(
    legal | st.sampled_from(("pk", "sk", "a", "kind")),
    st.sampled_from(INDEXES),
    legal | st.sampled_from(KEYS),
    st.sampled_from(NUMBERS),
)
"""Tables of which models can be made."""

HOSTILE = Words(texts | LEGAL.names, texts | LEGAL.services, texts | LEGAL.texts, st.sampled_from((*NUMBERS, *WRONG)))
"""Tables with anything in them."""


def attributes(words: Words) -> st.SearchStrategy[Any]:
    """Attribute values."""
    return st.recursive(
        st.one_of(
            words.texts.map(lambda text: {"S": text}),
            words.numbers.map(lambda text: {"N": text}),
            st.sampled_from(("YQ==", "YWI=")).map(lambda text: {"B": text}),
            st.just({"BOOL": True}),
            st.just({"NULL": True}),
            st.lists(words.texts, min_size=1, max_size=2, unique=True).map(lambda each: {"SS": each}),
            words.numbers.map(lambda text: {"NS": [text]}),
        ),
        lambda inner: (
            st.lists(inner, max_size=2).map(lambda each: {"L": each})
            | st.dictionaries(words.texts, inner, max_size=2).map(lambda each: {"M": each})
        ),
        max_leaves=3,
    )


def items_of(words: Words, keys: tuple[str, ...]) -> st.SearchStrategy[list[Any]]:
    """Items that have these key attributes, and any others."""
    key = st.fixed_dictionaries({name: words.texts.map(lambda text: {"S": text}) for name in keys})
    others = st.dictionaries(words.names, attributes(words), max_size=3)
    item = st.tuples(others, key).map(lambda pair: pair[0] | pair[1])
    return st.lists(item, max_size=3, unique_by=lambda one: str([one[key] for key in keys]))


NODES = (
    *(ast.Module, ast.Expr, ast.Constant, ast.ImportFrom, ast.alias, ast.Assign, ast.AnnAssign, ast.ClassDef),
    *(ast.Call, ast.keyword, ast.Name, ast.Load, ast.Store, ast.Tuple, ast.Dict, ast.Subscript, ast.BinOp, ast.BitOr),
)
CALLS = {"Table", "PrimaryKey", "AccessPattern", "Stored", "Cell", "set"}
NAMES = CALLS | {"Entity", "TTL", "Columns", "Annotated", "Any", "Decimal", "date", "datetime"}
NAMES |= {"str", "int", "float", "bool", "bytes", "list", "dict"}
IMPORTED = {"datetime", "decimal", "typing", "odm"}


def check(source: str) -> None:
    """Assert that a source declares models, and does nothing else."""
    tree = ast.parse(source)
    own = {
        node.targets[0].id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert len(own) == 1
    for node in ast.walk(tree):
        assert isinstance(node, NODES), ast.dump(node)
        match node:
            case ast.Call(func=ast.Name(id=name)):
                assert name in CALLS
            case ast.Call():
                raise AssertionError(ast.dump(node))
            case ast.Name(id=name, ctx=ast.Load()):
                assert name in NAMES | own
            case ast.Name(id=name):
                assert name not in NAMES - {"date"}
                assert not name.startswith("_")
            case ast.ClassDef(name=name):
                assert name not in NAMES
            case ast.ImportFrom(module=module):
                assert module in IMPORTED
            case ast.AnnAssign(annotation=annotation):
                # Pydantic evaluates text in an annotation, unless it is an argument of a marker.
                called = [one for call in ast.walk(annotation) if isinstance(call, ast.Call) for one in ast.walk(call)]
                constants = [one for one in ast.walk(annotation) if isinstance(one, ast.Constant)]
                assert all(one.value is None for one in constants if one not in called)
    assert all(line.isprintable() for line in source.split("\n"))


def modelled(name: Any, **others: Any) -> dict[str, Any]:
    """A Workbench file with one table."""
    key = {"PartitionKey": {"AttributeName": "pk", "AttributeType": "S"}}
    return {"DataModel": [{"TableName": name, "KeyAttributes": key, "TableData": [{"pk": {"S": "a"}}], **others}]}


def described(name: Any, **others: Any) -> dict[str, Any]:
    """The answer of DescribeTable."""
    definitions = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "a")]
    keys = [{"AttributeName": "pk", "KeyType": "HASH"}]
    return {"Table": {"TableName": name, "KeySchema": keys, "AttributeDefinitions": definitions, **others}}


DISABLED: dict[str, Any] = {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of each place in JSON."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, part in parts for found in places(part, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    """JSON with another value in one place."""
    if not path:
        return by
    made = deepcopy(value)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = by
    return made


def damaged(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """JSON as it is, or with anything in one place."""

    def damage(made: Any) -> st.SearchStrategy[Any]:
        return st.just(made) | st.builds(replaced, st.just(made), st.sampled_from(places(made)), PLACES)

    return value.flatmap(damage)


def index(words: Words, keys: Any) -> st.SearchStrategy[Any]:
    whole = st.sampled_from(({}, {"ProjectionType": "ALL"}, {"ProjectionType": "KEYS_ONLY"}))
    parts = st.lists(words.names, max_size=2, unique=True)
    some = parts.map(lambda held: {"ProjectionType": "INCLUDE", "NonKeyAttributes": held})
    return st.fixed_dictionaries({"IndexName": words.services, "Projection": whole | some} | keys)


def several(words: Words, keys: Any) -> st.SearchStrategy[list[Any]]:
    return st.lists(index(words, keys), max_size=2, unique_by=lambda one: one["IndexName"])


def workbench_files(words: Words) -> st.SearchStrategy[Any]:
    """Data models with one table, of which each item has the key attributes."""
    key = st.builds(lambda name: {"AttributeName": name, "AttributeType": "S"}, words.names)
    own = st.fixed_dictionaries({"PartitionKey": key}, optional={"SortKey": key})
    keys = own.filter(lambda one: len({part["AttributeName"] for part in one.values()}) == len(one))
    table = st.fixed_dictionaries(
        {"TableName": words.services.filter(lambda name: len(name) > 2), "KeyAttributes": keys},
        optional={"GlobalSecondaryIndexes": several(words, {"KeyAttributes": keys})},
    )

    def filled(made: dict[str, Any]) -> st.SearchStrategy[Any]:
        names = tuple(part["AttributeName"] for part in made["KeyAttributes"].values())
        return items_of(words, names).map(lambda items: {"DataModel": [made | {"TableData": items}]})

    return table.flatmap(filled)


def answers(words: Words) -> st.SearchStrategy[Any]:
    """The answers of DescribeTable and DescribeTimeToLive, and items."""
    keys = st.lists(words.names, min_size=1, max_size=2, unique=True).map(
        lambda names: [
            {"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)
        ]
    )
    table = st.fixed_dictionaries(
        {"TableName": words.services.filter(lambda name: len(name) > 2), "KeySchema": keys},
        optional={"GlobalSecondaryIndexes": several(words, {"KeySchema": keys})},
    )
    ttl = words.names.map(
        lambda name: {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": name}}
    )

    def filled(made: dict[str, Any]) -> st.SearchStrategy[Any]:
        schemas = [made["KeySchema"], *(one["KeySchema"] for one in made.get("GlobalSecondaryIndexes", ()))]
        every = {part["AttributeName"] for schema in schemas for part in schema}
        definitions = [{"AttributeName": name, "AttributeType": "S"} for name in every]
        own = tuple(part["AttributeName"] for part in made["KeySchema"])
        whole = {"Table": made | {"AttributeDefinitions": definitions}}
        return st.tuples(st.just(whole), st.just(DISABLED) | ttl, items_of(words, own)).map(list)

    return table.flatmap(filled)


families = st.sampled_from(("d", "MD", "a-b.c"))
qualifiers = texts.map(lambda text: text.encode(errors="surrogatepass")) | st.binary(max_size=6)
row_keys = qualifiers.filter(bool) | st.sampled_from(
    (b"u#1", b"u#2", b"USER#a#b", b"a|1426535612045", b"000098765420170726")
)
values = qualifiers | st.sampled_from((b"[1e999999999]", b"1e999999999", b"1.5", b"2024-01-01", b"1426535612045"))


def row_facts(names: st.SearchStrategy[str], families: st.SearchStrategy[str]) -> st.SearchStrategy[RowFacts]:
    """Tables of Bigtable."""
    cells = st.dictionaries(st.tuples(families, qualifiers), values, min_size=1, max_size=3)
    row = st.builds(
        lambda key, cells: Row(key, [Cell(family, name, cells[family, name]) for family, name in sorted(cells)]),
        row_keys,
        cells,
    )
    rows = st.lists(row, max_size=4, unique_by=lambda row: row.key).map(tuple)
    schema = st.dictionaries(families, st.just(ColumnFamily()), max_size=2)
    return st.builds(RowFacts, names, schema, rows)


def run_one(make: Callable[[], str]) -> None:
    """Assert that a source does nothing but declare models, or that there is none."""
    try:
        source = make()
    except OdmError:
        return
    check(source)


tries = settings(
    max_examples=times(100, 3000),
    suppress_health_check=[
        *(HealthCheck.function_scoped_fixture, HealthCheck.too_slow),
        *(HealthCheck.data_too_large, HealthCheck.filter_too_much),
    ],
)


@tries
@given(workbench_files(LEGAL) | damaged(workbench_files(HOSTILE)))
@example(modelled(CODE))
@example(modelled("shop", TableData=[{"pk": {"S": "a"}, CODE: {"S": CODE}, "\nx": {"N": "1e999999999"}}]))
def test_no_text_of_a_workbench_file_becomes_code(tmp_path: Path, content: Any) -> None:
    file = tmp_path / "hostile.json"
    file.write_text(json.dumps(content))
    run_one(lambda: models_of(facts_in(file, None)).source)


def of_answers(content: Any) -> str:
    """The source of models; anything may stand in place of an answer."""
    three: list[Any] = content if isinstance(content, list) and len(content) == 3 else [content] * 3
    described, ttl, items = three
    return models_of(facts_of(described, ttl, items if isinstance(items, list) else [items])).source


@tries
@given(answers(LEGAL) | damaged(answers(HOSTILE)))
@example([described(CODE), DISABLED, [{"pk": {"S": "a"}}]])
@example(
    [{"Table": described("shop")["Table"] | {"KeySchema": [{"AttributeName": [], "KeyType": "HASH"}]}}, DISABLED, []]
)
@example([described("shop"), DISABLED, [{"pk": {"S": "a"}, CODE: {"S": CODE}, "\0": {"M": {CODE: {"S": "a"}}}}]])
def test_no_text_of_an_answer_becomes_code(content: Any) -> None:
    run_one(lambda: of_answers(content))


@tries
@given(row_facts(st.just("shop"), families))
def test_no_text_of_a_bigtable_row_becomes_code(facts: RowFacts) -> None:
    run_one(lambda: source_of_rows(facts))


@pytest.mark.parametrize("text", [CODE, "", "x\nimport os", "a\0b", "a\ud800", "x" * 300, "{0}", "é"])
def test_a_name_that_is_none_is_named_in_the_error(tmp_path: Path, text: str) -> None:
    """Of a table, an index and a family; and of an attribute, which may have any text that UTF-8 can encode."""
    file = tmp_path / "hostile.json"

    def refused(content: Any) -> None:
        file.write_text(json.dumps(content))
        with pytest.raises(BadUsage, match="cannot name") as error:
            facts_in(file, None)
        assert repr(text)[:40] in str(error.value)

    index = {"IndexName": text, "KeyAttributes": {"PartitionKey": {"AttributeName": "a", "AttributeType": "S"}}}
    refused(modelled(text))
    refused(modelled("shop", GlobalSecondaryIndexes=[index]))
    if text in ("", "a\ud800"):
        refused(modelled("shop", TableData=[{"pk": {"S": "a"}, text: {"S": "a"}}]))
        refused(modelled("shop", KeyAttributes={"PartitionKey": {"AttributeName": text}}, TableData=[]))
    keys = [{"AttributeName": name, "KeyType": "HASH"} for name in ("a", "b", "c")]
    with pytest.raises(BackendError, match="cannot name an index"):
        facts_of(described("shop", GlobalSecondaryIndexes=[{"IndexName": text, "KeySchema": keys}]), DISABLED, ())
    with pytest.raises(BadValue, match="cannot name a table"):
        RowFacts(text)
    hostile: list[dict[str, Any]] = [{"families": {text: ColumnFamily()}}]
    hostile.append({"rows": (Row(b"a", [Cell(text, b"q", b"v")]),)})
    for facts in hostile:
        with pytest.raises(BadValue, match="cannot name a column family"):
            RowFacts("shop", **facts)
    with pytest.raises(BadValue, match="cannot name a column"):
        RowFacts("shop", rows=(Row(b"a", [Cell("d", b"x" * 20_000, b"v")]),))


NO_ATTRIBUTES: tuple[Any, ...] = (
    *({}, {"X": 1}, {"S": 1}, {"N": 1}, {"BOOL": 1}, {"NULL": False}),
    *({"M": []}, {"L": {}}, {"SS": []}, {"B": "é"}, {"S": "\ud800"}),
)


@pytest.mark.parametrize(
    "item",
    [
        *({"pk": {"S": "a"}, "n": {"N": text}} for text in WRONG),
        *({"pk": {"S": "a"}, "n": {"NS": ["1", text]}} for text in WRONG),
        *({"pk": {"S": "a"}, "n": value} for value in NO_ATTRIBUTES),
        *({"pk": key} for key in ({"N": "1"}, {"NULL": True}, {"S": 1})),
        {},
        [],
        None,
        "a",
    ],
    ids=lambda item: repr(item)[:60],
)
def test_what_is_no_item_is_refused(tmp_path: Path, item: Any) -> None:
    with pytest.raises(BackendError, match="does not answer as DynamoDB"):
        facts_of(described("shop"), DISABLED, [item])
    file = tmp_path / "hostile.json"
    file.write_text(json.dumps(modelled("shop", TableData=[item])))
    try:  # in Workbench, an attribute may be plain JSON
        check(models_of(facts_in(file, None)).source)
    except BadUsage:
        return
    assert item["pk"] == {"S": "a"}


def test_a_number_as_key_attribute_is_one(tmp_path: Path) -> None:
    file = tmp_path / "hostile.json"
    keys = {"PartitionKey": {"AttributeName": "pk", "AttributeType": "N"}}
    file.write_text(json.dumps(modelled("shop", KeyAttributes=keys, TableData=[{"pk": {"N": "x"}}])))
    with pytest.raises(BadUsage, match=re.escape("'pk' is {'N': 'x'}")):
        facts_in(file, None)


LONG = ("a" * 300_000 + "!", "-" * 300_000, "a#" * 150_000, "2024-01-01T00:00:00." + "1" * 300_000)


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_a_long_key_takes_no_time(text: str) -> None:
    """Time that grows with the square of the length would not end here."""
    words = words_of(text)
    form_of(words, positions_alike([words]) or (), repeated=False)
    positions_alike([words, words_of(text[:-1], prefixes_of([text]), [text, text[1:]])])
    whole, cell = text[:2048], Cell("d", text.encode()[:99], b"x")
    with pytest.raises(BackendError, match="longer than the 2048 bytes"):
        of_answers([described("shop"), DISABLED, [{"pk": {"S": text}}]])
    check(of_answers([described("shop"), DISABLED, [{"pk": {"S": whole}}, {"pk": {"S": whole[:-2]}}]]))
    with pytest.raises(BadValue, match="more than 4096 bytes"):
        RowFacts("shop", {}, (Row(text.encode(), [cell]),))
    run_one(lambda: source_of_rows(RowFacts("shop", {}, (Row(whole.encode(), [cell]),))))


@pytest.mark.parametrize("depth", [33, 400, 100_000])
def test_json_that_is_too_deep_is_refused(tmp_path: Path, depth: int) -> None:
    file = tmp_path / "hostile.json"
    for start, end in (("[", "]"), ('{"a": ', "}"), ('{"L": [', "]}"), ('{"M": {"a": ', "}}")):
        deep = f"{start * depth}1{end * depth}"
        file.write_text(
            json.dumps(modelled("shop", TableData=[{"pk": {"S": "a"}, "n": 0}])).replace('"n": 0', f'"n": {deep}')
        )
        with pytest.raises(BadUsage):
            facts_in(file, None)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "large.json"
    with file.open("wb") as opened:
        opened.truncate(workbench.MOST_BYTES + 1)
    with pytest.raises(BadUsage, match="has more than 64 MiB"):
        facts_in(file, None)


REFUSED = (
    "import os",
    "from os import system",
    "from odm import Store",
    "from odm import Table as Entity",
    "from .odm import Table",
    "x = 1",
    "x = os",
    'x = eval("1")',
    "x = Table(f())",
    "x = Table(*y)",
    "x = Table(**y)",
    "x = y = Table()",
    "x.y = Table()",
    'x = Table("a" + "b")',
    'x = Table(f"{y}")',
    "x = Table(lambda: 1)",
    "x = Table([1 for _ in y])",
    "x = Table(name=y)",
    "x = Table({**y})",
    "Table = Table()",
    "Entity = Table()",
    "_x = Table()",
    "Table()",
    "1",
    "def f(): pass",
    "async def f(): pass",
    "if x: pass",
    "del x",
    "class A: pass",
    "class A(Entity): pass",
    'class A(Entity, table=x, metaclass=y): "a"',
    'class A(Entity, table=f()): "a"',
    'class A(Entity, table=x, tag=y): "a"',
    'class A(Entity, table=x, **y): "a"',
    'class A(Base, table=x): "a"',
    'class A(Entity, Base, table=x): "a"',
    'class Table(Entity, table=x): "a"',
    'class set(Entity, table=x): "a"',
    '@f\nclass A(Entity, table=x): "a"',
    "class A(Entity, table=x): pass",
    "class A(Entity, table=x):\n def f(self): pass",
    'class A(Entity, table=x):\n class B(Entity, table=x): "a"',
    'class A(Entity, table=x):\n a: "f()"',
    'class A(Entity, table=x):\n a: Annotated["f()", TTL]',
    'class A(Entity, table=x):\n a: list["f()"]',
    "class A(Entity, table=x):\n a: f",
    "class A(Entity, table=x):\n a: f()",
    "class A(Entity, table=x):\n a: Stored()",
    "class A(Entity, table=x):\n a: Annotated[str, f]",
    "class A(Entity, table=x):\n a: Annotated[str, f()]",
    "class A(Entity, table=x):\n a: Annotated[str, Stored(f())]",
    "class A(Entity, table=x):\n a: str & None",
    "class A(Entity, table=x):\n a: str | f",
    "class A(Entity, table=x):\n a: str = f()",
    "class A(Entity, table=x):\n a: str = set(f())",
    "class A(Entity, table=x):\n a.b: str",
    "class A(Entity, table=x):\n (a): str",
    "class A(Entity, table=x):\n __init_subclass__: str",
    "class A(Entity, table=x):\n set: str = None",
    "class A(Entity, table=x):\n a = f()",
    "class A(Entity, table=x):\n a = Table()",
    "class A(Entity, table=x):\n a = PrimaryKey(f())",
    "class A(Entity, table=x):\n a = PrimaryKey",
    "class A(Entity, table=x):\n f()",
    "\0",
    "x = ",
    "(" * 1000,
)


@pytest.mark.parametrize("source", REFUSED)
def test_what_is_no_declaration_is_refused(source: str) -> None:
    with pytest.raises(BadValue):
        parse(source)


def test_what_generated_models_may_have_is_not_refused() -> None:
    parse(
        '"""Docstring."""\nfrom datetime import date, datetime\nfrom decimal import Decimal\n'
        "from typing import Annotated, Any\n"
        "from odm import TTL, AccessPattern, Cell, Entity, PrimaryKey, Stored, Table\n"
        'x = Table("x", keys=("a", "b"), index_keys={"i": ("a",)}, tag=None)\n'
        'class A(Entity, table=x, tag="a"):\n'
        ' a: Annotated[datetime | None, TTL, Stored("a", epoch="s"), Cell("a:b", "text")] = None\n'
        " b: set[Decimal] = set()\n c: dict[str, Any]\n"
        ' primary = PrimaryKey("{a}")\n by_b = AccessPattern("{b}", index="b", local=True, projection="keys")\n'
    )


@pytest.mark.parametrize("name", ["str", "date", "set", "list", "dict", "Table", "Entity", "TTL", "Cell", "float"])
def test_no_name_hides_one_that_models_use(name: str) -> None:
    values = {
        "n": {"S": name},
        name: {"N": "1"},
        "b": {"S": "a"},
        "d": {"S": "2024-01-01T00:00:00Z"},
        "e": {"SS": ["a"]},
    }
    items = [{"pk": {"S": "a"}, "kind": {"S": name}, **values}, {"pk": {"S": "b"}, "kind": {"S": name}, "x": {"L": []}}]
    check(
        of_answers(
            [described(f"{name}" if len(name) > 2 else "shop"), DISABLED, [*items, items[0] | {"pk": {"S": "c"}}]]
        )
    )
    rows = (Row(b"a#1", [Cell("d", name.encode(), b"2024-01-01"), Cell("d", b"x", b"2024-01-01")]),)
    check(source_of_rows(RowFacts(name, {}, rows)))


def test_the_table_name_of_a_workbench_file_runs_nothing(application: Application, run: Run) -> None:
    (application.folder / "hostile.json").write_text(json.dumps(modelled(CODE)))
    done = run("import", "hostile.json", "--into", "shop.db")
    assert not (application.folder / "ran").exists()
    assert done.code == 2
    assert '\'shop"""' in done.line


def test_several_hostile_tables_are_one_line(application: Application, run: Run) -> None:
    both = {"DataModel": [*modelled(CODE)["DataModel"], *modelled("\x1b[2Jshop")["DataModel"]]}
    (application.folder / "hostile.json").write_text(json.dumps(both))
    done = run("import", "hostile.json")
    assert done.line.rstrip("\n").isprintable()
    assert "\\x1b[2Jshop" in done.line


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "k")


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (described(CODE), '\'shop"""'),
        (described("shop", KeySchema=[{"AttributeName": "", "KeyType": "HASH"}]), "'' cannot name an attribute"),
        (described("shop", GlobalSecondaryIndexes=5), "TypeError"),
        ({}, "KeyError"),
    ],
)
def test_what_an_endpoint_answers_runs_nothing(application: Application, run: Run, answer: Any, text: str) -> None:
    bodies: list[Any] = [answer, DISABLED, {"Items": [{"pk": {"S": "a"}}]}]
    with serving(lambda: Answer(json.dumps(bodies.pop(0)).encode())) as server:
        done = run("inspect", f"dynamodb:eu-west-1?endpoint_url={server.endpoint}", "shop")
    assert not (application.folder / "ran").exists()
    assert done.code == 1
    assert text in done.line


def test_the_families_that_a_bigtable_server_answers_run_nothing(
    application: Application, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_bigtable() as server:
        monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", server.address)
        server.admin["GetTable"] = admin_types.Table(column_families={CODE: admin_types.ColumnFamily()})
        server.script = [[bigtable_rows("a")], [bigtable_rows("a")]]
        location = f"bigtable:project/instance?endpoint={server.address}"
        done = run("inspect", location, "shop")
        named = run("inspect", location, CODE)
    assert not (application.folder / "ran").exists()
    assert (done.code, named.code) == (1, 2)
    assert '\'shop"""' in done.line
    assert "cannot name a table" in named.line
