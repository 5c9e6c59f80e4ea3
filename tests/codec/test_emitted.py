"""Generated code has the stored names, tags and templates of a model as constants alone, and behaves as it should.

The proof: the code of a model with arbitrary texts is, but for its constants, the code of the same model with plain
ones. So no text of a model, which may come from the names of a table that exists, can become code.
"""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, create_model

from odm import TTL, AccessPattern, Entity, PrimaryKey, SchemaError, Store, Stored, Table
from odm.backends.bigtable.client.native import Cell, Row
from odm.backends.bigtable.rows import loading as bigtable
from odm.backends.bigtable.rows.cells import SIDE_COLUMNS
from odm.backends.bigtable.rows.codec import Form
from odm.backends.bigtable.rows.loading import Loader as RowLoader
from odm.backends.bigtable.rows.loading import RowItem
from odm.backends.dynamodb.items import codec as dynamodb
from odm.backends.dynamodb.items.layout import layout_of
from odm.backends.dynamodb.items.loading import AttributesItem, Loader
from odm.backends.local import Memory
from odm.backends.local import codec as local
from odm.codec import Draft, compile_codec
from odm.codec.emitter import generated_dump
from odm.protocol.requests import Put
from tests.effort import times

pytestmark = pytest.mark.slow

TEXTS = (
    '"""',
    "'''",
    '"',
    "'",
    "\"'",
    "\\",
    "a\\",
    "\\N{DASH}",
    "\n",
    "\r\n",
    "\0",
    "{",
    "}",
    "{{",
    "{0}",
    "{item}",
    "{__import__('os').system('touch ran')}",
    "'] or __import__('os').system('touch ran') or item['",
    '"}\n    import os\n    {"',
    "%s",
    "%",
    "\u2028",
    "\u202e",
    "$n",
    "#",
    "made",
    "values",
    "é",
    "😀",
)
texts = st.sampled_from(TEXTS) | st.text(min_size=1, max_size=6)
tries = settings(max_examples=times(60, 2000), suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def executed() -> Iterator[list[str]]:
    """Collect the sources that odm generates and executes."""
    sources: list[str] = []

    def collect(source: str, names: dict[str, Any]) -> None:
        sources.append(source)
        exec(source, names)

    with (
        patch("odm.codec.emitter.exec", collect, create=True),
        patch("odm.keys.template.exec", collect, create=True),
    ):
        yield sources


def without_constants(source: str) -> str:
    """The tree of a source, in which one text is as another."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            node.value = type(node.value).__name__
            node.kind = None
    return ast.dump(tree)


NODES = (
    *(ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Try, ast.ExceptHandler, ast.If, ast.For, ast.Return),
    *(ast.Raise, ast.Assign, ast.Expr, ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant),
    *(ast.JoinedStr, ast.FormattedValue, ast.IfExp, ast.NamedExpr, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare),
    *(ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp, ast.comprehension),
    *(ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop),
)


COUNT = 18


def model_of(names: Sequence[str], word: str) -> type[BaseModel]:
    """A model with a field of each kind, which have these stored names, and a text that it chooses from."""
    stored = [Stored(name) for name in names]
    inner = create_model(
        "Inner", text=(Annotated[str, stored[0]], "t"), number=(Annotated[int | None, stored[1]], None)
    )
    kinds: Mapping[str, tuple[Any, Any]] = {
        "text": (str, "t"),
        "maybe": (str | None, None),
        "whole": (int, 7),
        "money": (Decimal, Decimal("1.5")),
        "real": (float, 0.5),
        "flag": (bool, True),
        "data": (bytes, b"\0"),
        "when": (datetime, datetime(2026, 1, 5, 9, 30, tzinfo=UTC)),
        "day": (date | None, date(2026, 1, 5)),
        "words": (set[str], set()),
        "sizes": (set[int], set()),
        "inner": (inner, inner()),
        "inners": (list[inner], [inner()]),  # type: ignore[valid-type]
        "by": (dict[str, int], {"a": 1}),
        "choice": (Literal[(word, "other")], word),
        "any": (Any, {"a": [1]}),
    }
    fields: dict[str, Any] = {
        name: (Annotated[type_, stored[at]], value) for at, (name, (type_, value)) in enumerate(kinds.items(), 2)
    }
    return create_model("Made", **fields, until=(Annotated[datetime | None, TTL], None))


def emit(names: Sequence[str], word: str) -> list[str]:
    """Write and read an entity with the generated code of every backend; returns the sources."""
    model = model_of(names, word)
    with executed() as sources:
        codec = compile_codec(model, word)
        entity = model(words={"a", "b"}, sizes={1, 2})
        assert generated_dump(codec.record, codec.marks)(entity) == codec.encode(entity)
        attributes = dynamodb.write_item(codec, entity)
        assert isinstance(attributes, Draft)
        item: Any = AttributesItem(json.loads(attributes.form), frozenset(), Loader([codec]))
        assert item.load() == entity
        data = local.encode(local.write_item(codec, entity))
        assert codec.decode(local.decode(data)) == entity
        cells = bigtable.write_item(codec, entity, Form({}))
        assert isinstance(cells, Draft)
        row = Row(b"k", [Cell("d", column.encode(), cell) for column, cell in sorted(cells.form)])
        assert RowItem(row, RowLoader(Form({}), [codec])).load() == entity
    return sources


PLAIN = [without_constants(source) for source in emit([f"n{at}" for at in range(COUNT)], "word")]


def test_the_code_of_plain_names_has_expected_nodes_only() -> None:
    assert len(PLAIN) == 6
    for source in emit([f"n{at}" for at in range(COUNT)], "word"):
        assert all(isinstance(node, NODES) for node in ast.walk(ast.parse(source)))
        attributes = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
        assert not {name for name in attributes if name.startswith("_")} - {"__dict__"}


@tries
@given(st.lists(texts, min_size=COUNT, max_size=COUNT, unique=True), texts)
@example([*TEXTS[:COUNT]], TEXTS[0])
@example([*TEXTS[-COUNT:]], TEXTS[16])
@example([f"{text}{at}" for at, text in enumerate(TEXTS[10:])], TEXTS[17])
def test_stored_names_and_tags_are_constants_of_generated_code(names: list[str], word: str) -> None:
    # "until" is the stored name of a field that the model itself names.
    assume(all(not name.startswith("_") for name in names) and "until" not in names and word != "other")
    assume(not set(SIDE_COLUMNS) & set(names))  # Bigtable refuses fields with these names
    assert [without_constants(source) for source in emit(names, word)] == PLAIN


def keys_of(table: Table, literals: Sequence[str], text: str, index: str) -> list[str]:
    """Write, read and query an item whose key templates have these literals; returns the sources."""
    first, second, third = (literal.replace("{", "").replace("}", "") for literal in literals)

    class Made(Entity, table=table):
        a: str
        n: int = 0

        primary = PrimaryKey(f"{first}#{{a}}", f"{second}#{{n}}")
        by_n = AccessPattern(f"{third}#{{n}}", index=index)

    with executed() as sources, Store(table, Memory()) as db:
        entity = Made(a=text, n=7)
        schema = table.compile().entity(Made)
        key, entries = schema.key({"a": text, "n": 7}), schema.entries({"a": text, "n": 7}, {}, None)  # type: ignore[arg-type]
        layout = layout_of(table.compile())
        db.create()
        db.put(entity)
        assert db.get(Made, a=text, n=7) == entity
        assert list(db.query(Made.primary(a=text))) == list(db.query(Made.by_n(n=7))) == [entity]
        put = dynamodb.write_put(layout, Put(key, dynamodb.write_item(schema.codec, entity), entries))
        assert {name: put[name] for name in layout.keys} == dict(
            zip(layout.keys, ({"S": part} for part in key), strict=True)
        )
    return sources


SHOP = keys_of(Table("shop", key_style="verbatim"), ("A", "B", "C"), "a", "GSI1")
KEYS = {without_constants(source) for source in SHOP}


@tries
@given(
    st.lists(texts, min_size=4, max_size=4, unique=True),
    st.lists(texts, min_size=3, max_size=3, unique=True),
    texts,
    st.from_regex(r"[A-Za-z0-9_.-]{3,9}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_.-]{3,9}", fullmatch=True),
)
@example([*TEXTS[:4]], [*TEXTS[4:7]], TEXTS[16], "str", "---")
@example([*TEXTS[16:20]], [*TEXTS[7:10]], TEXTS[17], "...", "exec")
def test_literals_and_names_of_tables_are_constants_of_generated_code(
    names: list[str], literals: list[str], text: str, table: str, index: str
) -> None:
    try:
        made = Table(table, keys=names[:2], index_keys={index: names[2:]}, key_style="verbatim")
        sources = keys_of(made, literals, text, index)
    except SchemaError:
        assume(False)
    assert {without_constants(source) for source in sources} <= KEYS
