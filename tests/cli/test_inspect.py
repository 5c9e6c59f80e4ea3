"""`odm inspect`, `odm import` and `odm export`: the models that they write fit the items, byte for byte."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odm import OdmError, Store, Table, collection
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile
from odm.cli.inspect.check import faults
from odm.cli.inspect.facts import IndexFacts, TableFacts
from odm.cli.inspect.infer import infer, infer_plain
from odm.cli.inspect.models import models_of
from odm.cli.inspect.source import source_of
from odm.cli.inspect.workbench import facts_in
from tests.cli.command_line import ROOT, odm
from tests.cli.conftest import SHOP
from tests.published.designs import FOLDER, Design, read_designs

DESIGNS = read_designs()
published = pytest.mark.skipif(not DESIGNS, reason=f"the published designs are not in {FOLDER}")

KEYS = {
    "Chat": {"User:{user} | {sk}", "Room:{room} | meta"},
    "Complaint_management_system": {"{pk} | comm#{comm_date}#{comm_id}", "{complaint_id} | metadata"},
    "SNS": {
        'u#{u} | "info"',
        'u#{u} | "count"',
        "u#{u}#follower | u#{u_2}",
        "u#{u}#following | u#{u_2}",
        "u#{u}#post | p#{p}",
        "p#{p}#likelist | u#{u}",
        'p#{p}#likecount | "count"',
        "u#{u}#timeline | p#{p}#u#{u_2}",
    },
    "OnlineShop": {
        *("c#{c} | c#{c}", "p#{p} | p#{p}", "w#{w} | w#{w}", "p#{p} | w#{w}", "o#{o} | p#{p}", "o#{o} | c#{c}"),
        *("o#{o} | i#{i}", "o#{o} | sh#{sh}", "o#{o} | shp#{shp}"),
    },
    "DeviceStateLog": {"d#{d} | {state}#{date}"},
}
"""The primary keys that are found."""


@published
@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_the_published_designs_are_found(design: Design) -> None:
    facts = facts_in(FOLDER / f"{design.name}.json", None)
    schema = models_of(facts).table.compile()
    keys = {f"{e.primary.partition.text} | {e.primary.sort and e.primary.sort.text}" for e in schema.entities.values()}
    assert keys == KEYS[facts.name]
    assert schema.indexes.keys() == facts.indexes.keys()


@published
@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_the_plain_design_always_fits(design: Design) -> None:
    facts = facts_in(FOLDER / f"{design.name}.json", None)
    plain = infer_plain(facts)
    assert faults(source_of(plain), plain, facts.items) == []


@published
@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_the_models_answer_the_access_patterns(design: Design, dynamodb_local: str) -> None:
    session = boto3.Session(aws_access_key_id=uuid4().hex[:20], aws_secret_access_key="s", region_name="eu-west-1")
    client: Any = session.client("dynamodb", endpoint_url=dynamodb_local)
    design.create(client)
    made = models_of(facts_in(FOLDER / f"{design.name}.json", None))
    with Store(made.table, DynamoDB(session, endpoint_url=dynamodb_local)) as db:
        for asked in design.patterns:
            if "pk" not in asked:
                continue
            items = design.ask(client, {"pk": asked["pk"]} | ({"index": asked["index"]} if "index" in asked else {}))
            found = [_read(entity, made.table) for entity in db.query(_partition(made.table, asked))]
            assert sorted(found) == sorted(tuple(item[name]["S"] for name in design.keys[""]) for item in items)


def _read(entity: Any, table: Table) -> tuple[str, str]:
    key = table.compile().entity(type(entity)).key(vars(entity))
    return key.partition, key.sort


def _partition(table: Table, asked: Any) -> Any:
    """The query of a partition, by a pattern whose template has its key."""
    for entity in table.compile().entities.values():
        for pattern in (entity.primary, *entity.patterns.values()):
            values = pattern.partition.read(asked["pk"]) if pattern.index == asked.get("index") else None
            if values is not None:
                return collection(getattr(entity.cls, pattern.name)(**values))
    raise AssertionError(asked)


@published
@pytest.mark.full
def test_the_models_pass_a_strict_type_checker(tmp_path: Path) -> None:
    for design in DESIGNS:
        made = models_of(facts_in(FOLDER / f"{design.name}.json", None))
        (tmp_path / f"{design.name.lower()}.py").write_text(made.source)
    environment = os.environ | {"MYPYPATH": str(ROOT)}
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "."]
    checked = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


TEXTS = ("u#1", "u#2", "USER#a", "a", "meta", "#META#", "2024-01-01T00:00:00Z", "x y", "o#1#line", ":", "##")
texts = st.sampled_from(TEXTS)
numbers = st.integers(-5, 5).map(lambda number: {"N": str(number)})
others = st.one_of(
    texts.map(lambda text: {"S": text}),
    numbers,
    st.just({"BOOL": True}),
    st.just({"NULL": True}),
    st.just({"SS": ["a"]}),
    st.just({"L": [{"S": "x"}, {"N": "1.5"}]}),
    st.just({"M": {"k": {"NULL": True}}}),
)
rows = st.fixed_dictionaries(
    {"PK": texts.map(lambda text: {"S": text}), "SK": texts.map(lambda text: {"S": text})},
    optional={
        "kind": st.sampled_from(["a", "b"]).map(lambda text: {"S": text}),
        "GSI1PK": texts.map(lambda text: {"S": text}),
        "GSI1SK": texts.map(lambda text: {"S": text}),
        "n": others,
        "class": others,
    },
)


def test_a_partition_key_with_one_value_in_the_sample_is_a_field() -> None:
    """Items share a partition key, so a repeated text is not fixed for that; in a sort key it is."""
    items = tuple({"forum": {"S": "python"}, "number": {"N": str(n)}, "author": {"S": f"a{n}"}} for n in range(3))
    indexes = {"by-author": IndexFacts(("author",))}
    types = {"forum": "S", "number": "N", "author": "S"}
    source = source_of(infer(TableFacts("threads", ("forum", "number"), types, indexes, None, items)))
    assert 'primary = PrimaryKey("{forum}", "{number}")' in source
    assert ' by_author = AccessPattern("{author}", index="by-author")' in source


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(rows, max_size=8, unique_by=lambda row: (row["PK"]["S"], row["SK"]["S"])))
def test_models_of_any_items_keep_them_as_they_are(items: list[Any]) -> None:
    types: dict[str, str] = dict.fromkeys(("PK", "SK", "GSI1PK", "GSI1SK"), "S")
    facts = TableFacts("any", ("PK", "SK"), types, {"GSI1": IndexFacts(("GSI1PK", "GSI1SK"))}, None, tuple(items))
    mixed_null = any({"NULL": True} in (row.get(name) for row in items) for name in ("n", "class"))
    if mixed_null:  # null in one item and absence in another cannot be said
        return
    made = models_of(facts)
    assert [type(one).__name__ for one in made.entities(items)] != [] or not items
    assert infer(facts).sampled == len(items)


def test_inspect_reads_a_live_table(dynamodb_local: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, uuid4().hex[:20])
    client: Any = boto3.client("dynamodb", region_name="eu-west-1", endpoint_url=dynamodb_local)
    client.create_table(
        TableName="Readings",
        KeySchema=[{"AttributeName": "sensor", "KeyType": "HASH"}, {"AttributeName": "at", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": "sensor", "AttributeType": "S"},
            {"AttributeName": "at", "AttributeType": "N"},
            {"AttributeName": "place", "AttributeType": "S"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "places",
                "KeySchema": [{"AttributeName": "place", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    specification = {"Enabled": True, "AttributeName": "gone"}
    client.update_time_to_live(TableName="Readings", TimeToLiveSpecification=specification)
    for number in range(3):
        item = {"sensor": {"S": "s#1"}, "at": {"N": str(number)}, "gone": {"N": "4102444800"}, "v": {"N": "1.5"}}
        client.put_item(TableName="Readings", Item=item | ({"place": {"S": "roof"}} if number else {}))
    found = odm(tmp_path, "inspect", f"dynamodb:eu-west-1?endpoint_url={dynamodb_local}", "Readings")
    assert found.returncode == 0, found.stderr
    assert 'gone: Annotated[datetime, TTL, Stored("gone", epoch="s")]' in found.stdout
    names: dict[str, Any] = {"__name__": "readings_models"}
    exec(found.stdout, names)
    with Store(names["readings"], DynamoDB(region="eu-west-1", endpoint_url=dynamodb_local)) as db:
        items: list[Any] = list(db.scan())
        assert sorted((one.at, one.v) for one in items) == [(number, Decimal("1.5")) for number in range(3)]
        pattern = names["Readings"].by_places(place="roof")
        assert sorted(one.at for one in db.query(pattern)) == [1, 2]


@published
def test_workbench_models_go_there_and_back(tmp_path: Path) -> None:
    file = FOLDER / "AnOnlineShop_14.json"
    imported = odm(tmp_path, "import", str(file), "--into", "shop.db")
    assert imported.returncode == 0, imported.stderr
    (tmp_path / "shop_models.py").write_text(imported.stdout)
    exported = odm(tmp_path, "export", "--workbench", "shop_models:online_shop", "shop.db")
    assert exported.returncode == 0, exported.stderr
    (tmp_path / "again.json").write_text(exported.stdout)
    before, after = facts_in(file, None), facts_in(tmp_path / "again.json", "OnlineShop")
    assert sorted(after.items, key=_key) == sorted(before.items, key=_key)
    assert (after.keys, after.indexes) == (before.keys, before.indexes)
    assert odm(tmp_path, "import", "again.json").stdout == imported.stdout


def test_an_import_asks_before_it_replaces_items(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    fill = "from shop import *; from odm import Store; from odm.backends.local import LocalFile\n"
    fill += "db = Store(shop, LocalFile('old.db')); db.create(); db.put(Customer(customer_id='c', email='e'))"
    subprocess.run([sys.executable, "-c", fill], cwd=tmp_path, check=True)
    (tmp_path / "model.json").write_text(odm(tmp_path, "export", "--workbench", "shop:shop", "old.db").stdout)
    first = odm(tmp_path, "import", "model.json", "--into", "new.db")
    assert (first.returncode, first.stderr) == (0, "")
    again = odm(tmp_path, "import", "model.json", "--into", "new.db")
    assert (again.returncode, again.stdout) == (1, "")
    assert "Write 1 sample item to table shop, which has 1 item, " in again.stderr
    assert "table shop is unchanged: the import was not confirmed" in again.stderr
    assert odm(tmp_path, "import", "model.json", "--into", "new.db", "--yes").stdout == first.stdout


@pytest.mark.parametrize("place", ["file", "dynamodb"])
def test_an_import_copies_an_attribute_that_the_models_left_out(
    tmp_path: Path, place: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend: Any
    values: list[dict[str, Any]] = [{"a": {"NULL": True}}, {"a": {"N": "1"}}, {"_v": {"S": "x"}}]
    values += [{"a": {"S": "x"}, "_v": {"NULL": True}}, {"_v": {"N": "7"}}]
    items = [{"PK": {"S": f"CAR#{at}"}, "SK": {"S": "META"}, "b": {"S": "y"}, **its} for at, its in enumerate(values)]
    names_of_keys = {"PartitionKey": "PK", "SortKey": "SK"}
    keys = {kind: {"AttributeName": name, "AttributeType": "S"} for kind, name in names_of_keys.items()}
    model = {"TableName": f"cars-{uuid4().hex[:8]}", "KeyAttributes": keys, "TableData": items}
    (tmp_path / "cars.json").write_text(json.dumps({"DataModel": [model]}))
    location, backend = "cars.db", LocalFile(tmp_path / "cars.db")
    if place == "dynamodb":
        endpoint = request.getfixturevalue("dynamodb_local")
        location = f"dynamodb:eu-west-1?endpoint_url={endpoint}"
        backend = DynamoDB(region="eu-west-1", endpoint_url=endpoint)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", uuid4().hex[:20])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    done = odm(tmp_path, "import", "cars.json", "--into", location)
    assert (done.returncode, done.stderr) == (0, "")
    assert "# a has no field" in done.stdout
    assert "# _v has no field" in done.stdout
    names: dict[str, Any] = {"__name__": "car_models"}
    exec(done.stdout, names)
    [table] = [value for value in names.values() if isinstance(value, Table)]
    with Store(table, backend) as db:
        stored = {raw.partition: raw.attributes for raw in db.scan_page(None).items}
    of_a, of_v = ([stored[f"CAR#{at}"].get(name, "absent") for at in range(5)] for name in ("a", "_v of others"))
    assert of_a == [None, 1, "absent", "x", "absent"]
    assert of_v == ["absent", "absent", "x", None, 7]


def _key(item: Any) -> tuple[str, str]:
    return item["PK"]["S"], item["SK"]["S"]


NAMES = ("DataModel", "TableName", "KeyAttributes", "PartitionKey", "AttributeName", "TableData", "PK")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(["S", "PK", "DataModel", "TableName"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
        max_leaves=20,
    )
)
def test_a_damaged_model_is_bad_usage_or_a_model(tmp_path: Path, content: Any) -> None:
    file = tmp_path / "damaged.json"
    file.write_text(json.dumps({"DataModel": [content]}))
    with suppress(OdmError):
        models_of(facts_in(file, None))


def test_export_names_its_format(tmp_path: Path) -> None:
    ended = odm(tmp_path, "export", "models:shop")
    assert (ended.returncode, "--workbench" in ended.stderr) == (2, True)
