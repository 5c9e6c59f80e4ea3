"""Every example, on every backend that can run it: the answers are those of the case."""

import csv
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import boto3
import pytest
from google.cloud.bigtable.data import BigtableDataClient, ReadRowsQuery

from examples import pets, places, product_catalog, shop_orders, stream_handler, testing_your_app
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.operations.backend import Backend

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
CATALOG_ROW_KEYS = [
    "hats#fedoras#brandA",
    "hats#fedoras#brandB",
    "hats#newsboy#brandB",
    "shoes#sneakers#brandA",
    "shoes#sneakers#brandB",
]


def make_backend(name: str, request: pytest.FixtureRequest) -> Backend:
    match name:
        case "memory":
            return Memory()
        case "file":
            return LocalFile(request.getfixturevalue("tmp_path") / "example.db")
        case "bigtable":
            return Bigtable("project", "instance", endpoint=request.getfixturevalue("bigtable_emulator"))
        case _:
            session = boto3.Session(aws_access_key_id="key", aws_secret_access_key="secret", region_name="eu-west-1")
            return DynamoDB(session, endpoint_url=request.getfixturevalue(name))


@pytest.fixture(params=["memory", "file", "moto_server", "dynamodb_local", "bigtable"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return make_backend(request.param, request)


@pytest.fixture(params=["memory", "file", "moto_server", "dynamodb_local"])
def indexed_backend(request: pytest.FixtureRequest) -> Backend:
    """A backend with secondary patterns."""
    return make_backend(request.param, request)


def test_product_catalog(backend: Backend) -> None:
    answers = product_catalog.main(backend)
    keys = {
        question: [f"{p.category}#{p.product}#{p.brand}" for p in products] for question, products in answers.items()
    }
    assert keys == {
        "all hats": CATALOG_ROW_KEYS[:3],
        "all fedoras": CATALOG_ROW_KEYS[:2],
        "one product": CATALOG_ROW_KEYS[4:],
    }
    assert [p.price for p in answers["all hats"]] == [30, 28, 25]
    assert answers["one product"][0].description == "Classic features, modern materials..."


def test_the_catalogs_row_keys_on_bigtable(bigtable_emulator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    product_catalog.main(Bigtable("project", "instance", endpoint=bigtable_emulator))
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", bigtable_emulator)
    with BigtableDataClient(project="project") as client, client.get_table("instance", "catalog") as table:
        assert [row.row_key.decode() for row in table.read_rows(ReadRowsQuery())] == CATALOG_ROW_KEYS


def test_pets(backend: Backend) -> None:
    assert pets.main(backend) == {
        "dogs": ["Apollo", "Bowser", "Fido", "Kelly", "Rover"],
        "dogs, from the end": ["Rover", "Kelly", "Fido", "Bowser", "Apollo"],
        "dogs whose name begins with A to K": ["Apollo", "Bowser", "Fido", "Kelly"],
    }


def test_places(backend: Backend) -> None:
    assert places.main(backend) == {
        "in the USA": airports(country="USA"),
        "in Hawaii": airports(state="HI"),
        "in Houston": airports(state="TX", city="Houston"),
        "in Houston, name begins with W": ["IWS", "HOU"],
        "in a state with a # in its name": ["~3", "~2", "~1"],
        "of a name with a # in it": ["~2"],
    }


def airports(**wanted: str) -> list[str]:
    """The codes of places, in the order of their parts, by plain Python."""
    spec = find_spec("vega_datasets")
    assert spec is not None
    assert spec.origin is not None
    with (Path(spec.origin).parent / "_data" / "airports.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 3376
    rows += [place.model_dump() for place in places.MADE_UP]
    found = [row for row in rows if all(row[column] == value for column, value in wanted.items())]
    assert found
    return [row["iata"] for row in sorted(found, key=lambda r: (r["state"], r["city"], r["name"], r["iata"]))]


def test_shop_orders(indexed_backend: Backend) -> None:
    assert shop_orders.main(indexed_backend) == {
        "customer and orders, one request": ["o7", "o8", "o9", 'Ana "Zoë" Núñez #1'],
        "orders, newest first": ["o8", "o7", "o9"],
        "orders since 8 May": ["o7", "o8"],
        "open orders": ["o9", "o7", "o6", "o8"],
        "open orders, one shipped": ["o7", "o6", "o8"],
        "open orders, asked by asyncio": ["o7", "o6", "o8"],
    }


def test_stream_handler() -> None:
    answers = stream_handler.main()
    [[], [], [failure]] = answers.pop("failures")
    assert failure == {"itemIdentifier": stream_handler.BROKEN["dynamodb"]["SequenceNumber"]}
    assert answers == {
        "readers": [("ann", "Ann")],
        "loans": [("Emma", "2026-05-24T12:00:00+00:00", 1)],
        "overdue": [("ann", "Ulysses")],
    }


def test_testing_your_app() -> None:
    assert testing_your_app.main() == {
        "a hold ends": [True, False, True],
        "a throttled put is tried again": [0.2, 0.4],
        "a lost answer is looked up": [True, True],
        "an index lags": [0, 1],
        "a competitor is faster": [False, True],
        "a slow store": ["gave up", "get"],
    }


@pytest.mark.parametrize("example", [product_catalog, pets, places, shop_orders], ids=lambda e: e.__name__)
def test_a_second_run_gives_the_same_answers(example: object, tmp_path: Path) -> None:
    backend = LocalFile(tmp_path / "example.db")
    main = example.main  # type: ignore[attr-defined]
    assert main(backend) == main(backend)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_it_runs_as_a_script_and_leaves_nothing_behind(script: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) >= 3
    assert not list(tmp_path.iterdir())


def test_every_example_is_tested_and_in_the_readme() -> None:
    names = ["pets", "places", "product_catalog", "shop_orders", "stream_handler", "testing_your_app"]
    assert [script.stem for script in SCRIPTS] == names
    readme = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert [script.name for script in SCRIPTS if f"[{script.name}]({script.name})" not in readme] == []
