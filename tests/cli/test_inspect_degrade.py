"""`odm inspect`: one attribute that cannot be described is left out, and kept by a put; the table is described."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import boto3
import pytest

from odm import Store
from odm.backends.dynamodb import DynamoDB
from odm.cli.inspect.facts import IndexFacts, TableFacts, facts_of
from odm.cli.inspect.models import Models, models_of


def s(text: object) -> dict[str, str]:
    return {"S": str(text)}


NULL = {"NULL": True}


def made(items: Sequence[Any], ttl: str | None = None) -> Models:
    return models_of(TableFacts("shop", ("PK", "SK"), {"PK": "S", "SK": "S"}, {}, ttl, tuple(items)))


def rows(*columns: dict[str, Any]) -> list[Any]:
    return [{"PK": s(f"CAR#{at}"), "SK": s("META"), **column} for at, column in enumerate(columns)]


@pytest.fixture
def client(dynamodb_local: str) -> Any:
    session = boto3.Session(aws_access_key_id=uuid4().hex[:20], aws_secret_access_key="s", region_name="eu-west-1")
    return session.client("dynamodb", endpoint_url=dynamodb_local)


def round_trip(client: Any, models: Models, items: Sequence[Any]) -> list[Any]:
    """What a table has after every item was read with the models and put back."""
    client.create_table(
        TableName="shop",
        KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("PK", "SK")],
        BillingMode="PAY_PER_REQUEST",
    )
    for item in items:
        client.put_item(TableName="shop", Item=item)
    credentials = client._request_signer._credentials
    session = boto3.Session(credentials.access_key, credentials.secret_key, region_name="eu-west-1")
    with Store(models.table, DynamoDB(session, endpoint_url=client.meta.endpoint_url)) as db:
        found = list(db.scan())
        assert len(found) == len(items)
        for entity in found:
            db.put(entity)
    return sorted(client.scan(TableName="shop")["Items"], key=lambda item: str(item["PK"]))


NAMES = (
    *("list", "str", "int", "bool", "bytes", "dict", "set", "float", "type", "object", "print", "id", "hash"),
    *("Entity", "Table", "field", "Stored", "datetime", "date", "Decimal", "Any", "Annotated", "TTL", "PrimaryKey"),
    *("class", "def", "None", "True", "lambda", "match", "self", "cls", "super", "copy", "json", "schema", "dict"),
    *("model_config", "model_fields", "model_dump", "model_extra", "construct", "validate", "primary", "field_id"),
    *("_id", "__typename", "_private", "__class__", "__init__", "__v", "a b", "a.b", "a-b", "a:b", "1x", "é", "日本"),
    *("_t", "_v", "_ttl", "_was", "pk", "sk", "key", "delete", "{x}", "x{", '"', "#n", "shop"),
)


@pytest.mark.parametrize("name", dict.fromkeys(NAMES))
@pytest.mark.parametrize("value", [s("x"), {"N": "3"}, {"L": [s("x")]}, {"BOOL": True}], ids=["S", "N", "L", "BOOL"])
@pytest.mark.slow
def test_an_attribute_may_have_any_name(name: str, value: Any) -> None:
    """Required and optional, next to others of the types whose names it may hide."""
    others = {
        "L": {"L": [s("a")]},
        "M": {"M": {name: value}},
        "SS": {"SS": ["a"]},
        "at": s("2024-01-01T00:00:00Z"),
        "n": {"N": "1.5"},
    }
    for second in ({**others, name: value}, others):
        models = made(rows({**others, name: value}, second, others))
        assert f'Stored("{name}"' in models.source.replace('\\"', '"'), models.source
        names: dict[str, Any] = {"__name__": "models"}
        exec(models.source, names)
        assert names["shop"].compile().entities
        items = rows({**others, name: value}, second, others)
        assert len(list(models.entities(items))) == 3


@pytest.mark.parametrize("name", ["list", "str", "int", "bool", "bytes", "_id", "__key", "class", "a.b"])
def test_a_table_may_have_any_name_in_its_keys(name: str) -> None:
    types = {name: "S", "sort": "N", f"{name}2": "S"}
    items = tuple({name: s(at), "sort": {"N": str(at)}, f"{name}2": s("q")} for at in range(3))
    indexes = {"GSI": IndexFacts((f"{name}2", "sort"))}
    models = models_of(TableFacts("shop", (name, "sort"), types, indexes, None, items))
    assert len(list(models.entities(items))) == 3


def test_null_in_one_item_does_not_refuse_the_table(client: Any) -> None:
    items = rows({"a": s("x"), "b": NULL}, {"a": s("y"), "b": s("z")}, {"a": NULL}, {"a": s("z"), "c": s("c")})
    models = made(items)
    assert 'a: Annotated[str | None, Stored("a")]' in models.source
    assert 'b: Annotated[str | None, Stored("b", null="keep")] = None' in models.source
    assert round_trip(client, models, items) == items


def test_an_attribute_that_no_field_keeps_is_left_out(client: Any) -> None:
    items = rows({"a": NULL, "b": s("x")}, {"a": {"N": "1"}}, {"b": NULL}, {"a": s("x"), "b": s("y")})
    models = made(items)
    assert "# a has no field, and a put leaves it as it is: it is null in some items" in models.source
    assert "keep_unknown=True" in models.source
    assert 'b: Annotated[str | None, Stored("b", null="keep")] = None' in models.source
    assert round_trip(client, models, items) == items


def test_what_cannot_be_described_is_left_out_and_kept(client: Any) -> None:
    items = rows(*({"a": s("x"), "_v": {"N": "7"}, "_t": s("car"), "_ttl": {"N": "5"}} for _ in range(3)))
    models = made(items)
    assert round_trip(client, models, items) == items


@pytest.mark.parametrize("name", ["_v", "_t", "_ttl"])
def test_an_attribute_with_a_name_of_odm_is_left_out_and_kept(client: Any, name: str) -> None:
    items = rows({name: NULL}, {name: {"N": "1"}}, {"a": s("x")}, {name: s("x")})
    models = made(items)
    assert f"# {name} has no field" in models.source
    assert round_trip(client, models, items) == items


@pytest.mark.parametrize("value", [{"SS": ["a"]}, {"NS": ["1"]}, {"BS": [b"a"]}], ids=["SS", "NS", "BS"])
def test_a_set_may_be_null_in_some_items(client: Any, value: Any) -> None:
    items = rows({"a": value}, {"a": NULL})
    assert len(list(made(items).entities(items))) == len(items)
    items = rows({"a": value}, {"a": NULL}, {})
    assert round_trip(client, made(items), items) == items


def test_an_expiry_of_another_program_is_no_expiry_of_odm(client: Any) -> None:
    """An item with an attribute _ttl of the past is there, where the table has another TTL attribute, or none."""
    items = rows({"_ttl": {"N": "5"}, "a": s("x")}, {"_ttl": s("soon"), "a": s("y")})
    assert round_trip(client, made(items, ttl="expires"), items) == items


def described(schema: Sequence[tuple[str, str]], **others: Any) -> Any:
    names = dict.fromkeys(name for name, _ in schema)
    return {
        "Table": {
            "TableName": "shop",
            "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}],
            "AttributeDefinitions": [
                {"AttributeName": name, "AttributeType": "N" if name == "day" else "S"} for name in ("PK", *names)
            ],
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "wide",
                    "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in schema],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            **others,
        }
    }


OFF = {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}


def test_an_index_with_several_key_attributes_is_declared() -> None:
    schema = [("tenant", "HASH"), ("region", "HASH"), ("day", "RANGE"), ("id", "RANGE")]
    items: list[Any] = [
        {"PK": s(f"CAR#{at}"), "tenant": s("t"), "region": s("eu#1"), "day": {"N": str(at)}, "id": s(at)}
        for at in range(3)
    ]
    facts = facts_of(described(schema), OFF, items)
    models = models_of(facts)
    assert '"wide": (("tenant", "region"), ("day", "id")),' in models.source
    assert 'AccessPattern("{tenant}#{region}", "{day}#{id}", index="wide")' in models.source
    assert len(list(models.entities(items))) == 3
    one = facts_of(described([("tenant", "HASH"), ("day", "RANGE"), ("id", "RANGE")]), OFF, items[:2])
    assert 'AccessPattern("{tenant}", "{day}#{id}", index="wide")' in models_of(one).source


def test_a_vector_index_is_named_in_a_comment() -> None:
    vectors = [
        {
            "IndexName": "near",
            "VectorAttribute": {"AttributeName": "embedding"},
            "Dimensions": 3,
            "DistanceFunction": "COSINE",
        }
    ]
    items: list[Any] = [{"PK": s(f"DOC#{at}"), "embedding": {"L": [{"N": "0.5"}] * 3}} for at in range(2)]
    source = models_of(facts_of(described([("PK", "HASH")], VectorIndexes=vectors), OFF, items)).source
    comment = " ".join(line.removeprefix("# ") for line in source.splitlines() if line.startswith("# "))
    for text in ("near", "embedding", "3 dimensions", "COSINE", "odm has no declaration"):
        assert text in comment
