"""Every example, on every backend that can run it: the answers are those of the case."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import boto3
import pytest
from google.cloud.bigtable.data import BigtableDataClient, ReadRowsQuery
from google.cloud.bigtable.data.row_filters import CellsColumnLimitFilter

from examples import (
    customer_from_sql,
    garden,
    invoices,
    market,
    meters,
    pets,
    phone_batteries,
    places,
    product_catalog,
    server_metrics,
    shop_orders,
    songs_from_feed,
    stream_handler,
    testing_your_app,
    times_and_ids,
    video_page,
)
from odm import Store, Table, collection
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.protocol.connection import Backend
from odm.results import RequestInfo
from odm.testing import Clock

Read: TypeAlias = Callable[[str], dict[str, dict[str, bytes]]]

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
EXAMPLES = {script.stem: import_module(f"examples.{script.stem}") for script in SCRIPTS}
ANYWHERE = [name for name, example in EXAMPLES.items() if signature(example.main).parameters]
"""Examples whose ``main(backend)`` takes any backend."""
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


@pytest.fixture(
    params=["memory", pytest.param("file", marks=pytest.mark.full), "moto_server", "dynamodb_local", "bigtable"]
)
def backend(request: pytest.FixtureRequest) -> Backend:
    return make_backend(request.param, request)


@pytest.fixture(
    params=["memory", pytest.param("file", marks=pytest.mark.full), "moto_server", "dynamodb_local", "bigtable"]
)
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


@pytest.fixture
def read(bigtable_emulator: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Read]:
    """Reads a table with the vendor's client: row key to columns, of which the newest cell counts.

    Without the size that odm counts in each row of a partition.
    """
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", bigtable_emulator)
    with BigtableDataClient(project="project") as client:

        def read_table(name: str) -> dict[str, dict[str, bytes]]:
            with client.get_table("instance", name) as table:
                rows = table.read_rows(ReadRowsQuery(row_filter=CellsColumnLimitFilter(1)))
            return {
                row.row_key.decode(): {
                    f"{cell.family}:{cell.qualifier.decode()}": cell.value
                    for cell in row.cells
                    if cell.qualifier != b"\xff"
                }
                for row in rows
            }

        yield read_table


def test_the_catalogs_row_keys_on_bigtable(bigtable_emulator: str, read: Read) -> None:
    product_catalog.main(Bigtable("project", "instance", endpoint=bigtable_emulator))
    assert list(read("catalog")) == CATALOG_ROW_KEYS


def test_the_markets_rows_on_bigtable(bigtable_emulator: str, read: Read) -> None:
    market.main(Bigtable("project", "instance", endpoint=bigtable_emulator))
    assert list(read("quotes")) == ["NASDAQ#ZXZZT#1426535612156"]
    quote = read("quotes")["NASDAQ#ZXZZT#1426535612156"]
    assert {column: cell for column, cell in quote.items() if column.startswith("MD:")} == {
        "MD:ASK": b"600.6",
        "MD:ASKSIZE": b"1500",
        "MD:BID": b"600.55",
        "MD:BIDSIZE": b"500",
        "MD:EXCHANGE": b"NASDAQ",
        "MD:QUOTETIME": b"1426535612156",
        "MD:SYMBOL": b"ZXZZT",
    }
    assert set(market.rows()) >= {"NASDAQ#ZXZZT#1426535612156", "NASDAQ#ZXZZT#1426535612045"}
    trades = read("trades")
    assert len(trades) == 561
    assert trades["NASDAQ#ZXZZT#1426535612045"]["MD:LASTSALE"] == b"600.58"
    assert trades["NYSE  #IBM  #0946684800000"]["MD:LASTSALE"] == b"100.52"


def test_the_batteries_rows_on_bigtable(bigtable_emulator: str, read: Read) -> None:
    phone_batteries.main(Bigtable("project", "instance", endpoint=bigtable_emulator))
    assert [*read("battery-by-time")] == [f"BATTERY#2015030112450100{number}" for number in range(1, 6)]
    assert [*read("battery-by-user")][0::2] == [
        "BATTERY#Corrie#20150301124501001",
        "BATTERY#Jo#20150301124501003",
        "BATTERY#Sam#20150301124501005",
    ]
    assert [key[:11] for key in read("battery-salted")] == [f"BATTERY#{salt}#2" for salt in (0, 0, 1, 1, 2)]


def test_the_invoices_rows_on_bigtable(bigtable_emulator: str, read: Read) -> None:
    invoices.main(Bigtable("project", "instance", endpoint=bigtable_emulator))
    assert list(read("billing")) == [
        f"INVOICE#{key}"
        for key in (
            "0123#INVOICE",
            "0123#PAYMENT#0680",
            "0123#PAYMENT#0789",
            "0124#INVOICE",
            "0124#PAYMENT#0275",
            "0124#PAYMENT#0327",
        )
    ]
    rows = read("wide-invoices")
    assert list(rows) == ["0123", "0124"]
    assert [column for column in rows["0123"] if "#" in column] == ["d:payments#0680", "d:payments#0789"]
    assert b'"bill_to": "Jane"' in rows["0123"]["d:payments#0789"]
    [row, _] = read("invoice-rows").values()
    columns = ["payments:PAYMENT#0680", "payments:PAYMENT#0789"]
    assert [column for column in row if column[:9] == "payments:" and not column.endswith("##_r")] == columns
    assert b'"bill_to": "Jane"' in row[columns[1]]
    assert {line.partition(" @ ")[0].strip() for line in invoices.row()[::2]} == row.keys()


def test_the_videos_row_on_bigtable(bigtable_emulator: str, read: Read) -> None:
    backend = Bigtable("project", "instance", endpoint=bigtable_emulator)
    sent: list[RequestInfo] = []
    with Store(video_page.videos, backend, on_request=sent.append) as db:
        video_page.fill(db)
        rows = read("videos")
        assert list(rows) == ["0123", "0124"]
        comments = {column: cell for column, cell in rows["0123"].items() if column.startswith("comments:")}
        assert [json.loads(cell)["text"] for column, cell in comments.items() if not column.endswith("##_r")] == [
            "I really like this. Special effects are awesome.",
            "There's an audio glitch at 1:05.",
        ]
        shown = [line.partition(" @ ")[0].strip() for line in video_page.row()[::2]]
        counters = {"c:ABOUT##views", "c:ABOUT##likes"}
        assert {*shown} == rows["0123"].keys()
        assert {int.from_bytes(rows["0123"][column], "big") for column in counters} == {156, 3}
        del sent[:]
        db.delete_all(collection(video_page.Video.primary(video_id="0124")))
    assert len(sent) <= 2  # a read, and one mutation for the whole row
    assert [key for key, cells in read("videos").items() if cells] == ["0123"]


@pytest.mark.parametrize("name", ["video_page", "invoices"])
def test_a_row_for_each_item_gives_the_same_answers(name: str, bigtable_emulator: str) -> None:
    source = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert '"row_per_partition"' in source
    example = ModuleType(f"{name}_tall")
    sys.modules[example.__name__] = example  # the classes look up their annotations there
    try:
        exec(source.replace('"row_per_partition"', '"row_per_item"').replace('Table("', 'Table("tall-'), vars(example))
        backend = Bigtable("project", "instance", endpoint=bigtable_emulator)
        answers = example.main(backend)
    finally:
        del sys.modules[example.__name__]
    assert str(answers) == str(EXAMPLES[name].main(backend))  # the classes differ


def test_the_meters_rows_on_bigtable(bigtable_emulator: str, read: Read) -> None:
    meters.main(Bigtable("project", "instance", endpoint=bigtable_emulator))
    rows = read("meters")
    others = [f"{meter}#20170726" for meter in meters.OTHERS]
    assert list(rows) == ["0000987654#20170726", "0000987654#20170727", *others]
    columns = [column for column in rows["0000987654#20170726"] if column.startswith("d:readings#")]
    assert len(columns) == 96
    assert rows["0000987654#20170726"]["d:readings#2345"] == b"28.9"
    assert list(read("SENSOR_20170726")) == ["0000987654", *map(str, meters.OTHERS)]
    key, *cells = meters.row()
    assert key == "0000987654#20170726"
    assert {line.partition(" @ ")[0].strip() for line in cells[::2]} <= rows[key].keys()


def test_readings_of_many_meters_are_one_request_on_bigtable(bigtable_emulator: str) -> None:
    sent: list[RequestInfo] = []
    backend = Bigtable("project", "instance", endpoint=bigtable_emulator)
    with Store(meters.meters, backend, prefix="one-", on_request=sent.append) as db:
        db.create()
        del sent[:]
        meters.merge_quarter(db, meters.DAY, "0015", dict.fromkeys(meters.OTHERS, 13.45))
        assert [type(info.native).__name__ for info in sent] == ["MutateRows"]
        assert db.one(meters.MeterDay, meter=meters.OTHERS[0], day=meters.DAY).readings == {"0015": 13.45}


def test_the_servers_rows_on_bigtable(bigtable_emulator: str, read: Read) -> None:
    server_metrics.main(Bigtable("project", "instance", endpoint=bigtable_emulator))
    everything = read("METRIC")
    assert len(everything) == 241
    metric = everything["server1.bbb.com#1426535612045"]
    assert metric["d:values#CPU/CPU1_NICE"] == b"0"
    assert metric["d:values#MIO/BLK_WRTN"] == b"657365234"
    current = read("CURRENT_METRIC")
    assert list(current) == ["server1.bbb.com", "thermometer.seattle.example"]
    assert current["server1.bbb.com"]["d:values#CPU/CPU1_USR"] == b"0.02"


def test_the_gardens_rows_on_bigtable(bigtable_emulator: str, read: Read) -> None:
    garden.main(Bigtable("project", "instance", endpoint=bigtable_emulator))
    days = [key for key in read("garden-days") if key.startswith("VEGGIEGARDEN")]
    assert days == [f"VEGGIEGARDEN#201503{day:02}" for day in (1, 2, 3, 4, 5, 31)]
    march = read("garden-months")["VEGGIEGARDEN#201503"]
    key, *cells = garden.row()
    assert key == "VEGGIEGARDEN#201503"
    assert {line.partition(" @ ")[0].strip() for line in cells[::2]} == march.keys()
    assert {column: cell for column, cell in march.items() if "#" in column} == {
        "d:temps#1": b"60.4",
        "d:temps#2": b"61.2",
        "d:temps#3": b"61",
        "d:temps#31": b"60.4",
        "d:temps#4": b"65.1",
        "d:temps#5": b"62.2",
    }


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


def test_market(backend: Backend) -> None:
    assert market.main(backend) == {
        "the quote": ["ZXZZT 600.55 600.6 at 2015-03-16 19:53:32.156000+00:00"],
        "the trade": ["2015-03-16 600.58"],
        "AMZN, the newest three": ["2010-03-01 128.82", "2010-02-01 118.4", "2010-01-01 125.41"],
        "IBM, at the end of 2008": [
            "2008-09-01 113.53",
            "2008-10-01 90.24",
            "2008-11-01 79.65",
            "2008-12-01 82.15",
        ],
        "IBM, the newest before September 2008": ["2008-08-01 118.16"],
    }


def test_meters(backend: Backend) -> None:
    assert meters.main(backend) == {
        "the first and the last two": [12.34, 13.45, 27.89, 28.9],
        "days and readings of the meter": ["2017-07-26 96", "2017-07-27 1"],
        "readings of another meter": [0.5, 0.75],
        "meters in the nightly table": [987654, 4_000_000_001],
    }


def test_video_page(backend: Backend) -> None:
    assert video_page.main(backend) == {
        "requests for the page": ["1"],
        "the video": ["156 views", "3 likes", "1080p", "480", "720"],
        "its comments": [
            "09-10 19:01 I really like this. Special effects are awesome.",
            "09-10 16:30 There's an audio glitch at 1:05.",
        ],
        "the newest comments": ["Comment 500", "Comment 499", "Comment 498"],
        "those on the next page": ["Comment 497", "Comment 496", "Comment 495"],
        "comments that are kept": ["300"],
        "videos that are left": ["0123"],
        "comments that are left": ["0123", "0123"],
    }


def test_server_metrics(backend: Backend) -> None:
    values = "CPU/CPU1_NICE 0, CPU/CPU1_USR 0.02, IO/BLK_READ 253453634, MIO/BLK_WRTN 657365234"
    morning = [f"thermometer.seattle.example 2010-01-09 0{hour}:00:00: AIR/TEMP_F 39.5" for hour in (6, 7, 8)]
    assert server_metrics.main(backend) == {
        "metrics of the thermometer": ["240"],
        "in a morning": morning,
        "the newest of each host": [
            f"server1.bbb.com 2015-03-16 19:53:32: {values}",
            "thermometer.seattle.example 2010-01-10 23:00:00: AIR/TEMP_F 41",
        ],
    }


def test_invoices(indexed_backend: Backend) -> None:
    heads = [invoices.Invoice.model_validate(fields) for fields in invoices.invoices()]
    payments = list(invoices.payments())
    answers = invoices.main(indexed_backend)
    assert answers.pop("invoice 0123 with its payments") == [heads[0], payments[0], payments[1]]
    assert answers.pop("the invoice of payment 0275") == [heads[1]]
    [first, second] = answers.pop("both invoices, wide")
    assert isinstance(first, invoices.WideInvoice)
    assert isinstance(second, invoices.WideInvoice)
    assert first.model_dump(exclude={"payments"}) == heads[0].model_dump()
    assert first.payments == {"0680": payments[0].paid, "0789": payments[1].paid}
    assert second.payments == {"0327": payments[2].paid, "0275": payments[3].paid}
    rows = answers.pop("invoice 0123 in one row")
    assert [one.model_dump() for one in rows] == [one.model_dump() for one in (heads[0], payments[0], payments[1])]
    assert not answers


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


def test_songs_from_feed() -> None:
    assert songs_from_feed.main() == {"top of May": ["hit 52", "ode 41", "jig 26"], "removed": ["20"]}


def test_customer_from_sql() -> None:
    assert customer_from_sql.main() == {
        "loaded": ["Ann"],
        "mirrored to SQL": ["Ann of Rome", "Bob of None", "Cid of None"],
        "in the table": ["Anna of Rome, 1 visits", "Bob of None, 0 visits"],
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


def judged_below() -> set[str]:
    """Examples whose answers are judged by a test of their own, in this file."""
    text = Path(__file__).read_text(encoding="utf-8")
    return {name for name in EXAMPLES if f"def test_{name}(" in text}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", [name for name in ANYWHERE if name not in judged_below()])
def test_one_that_judges_its_own_answers(name: str, backend: Backend) -> None:
    main: Callable[[Backend], Any] = EXAMPLES[name].main
    answers = main(backend)
    assert answers
    assert answers == main(Memory())


def test_times_and_ids_by_another_clock() -> None:
    clock = Clock(datetime(2030, 6, 7, 23, 55, tzinfo=UTC))
    assert times_and_ids.main(Memory(), clock) == times_and_ids.main(Memory())
    assert clock.now() == datetime(2030, 6, 8, 0, 15, tzinfo=UTC)


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_second_run_gives_the_same_answers(name: str, tmp_path: Path) -> None:
    backend = LocalFile(tmp_path / "example.db")
    main: Callable[[Backend], Any] = EXAMPLES[name].main
    assert main(backend) == main(backend)


@pytest.mark.one_of(6, 2)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_it_runs_as_a_script_and_leaves_nothing_behind(script: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) >= 2
    assert not list(tmp_path.iterdir())


def test_every_example_is_tested_and_in_the_readme() -> None:
    assert set(EXAMPLES) - judged_below() <= set(ANYWHERE)
    for name in sorted(set(EXAMPLES) - judged_below()):
        assert "    assert " in (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8"), name
    readme = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert [script.name for script in SCRIPTS if f"[{script.name}]({script.name})" not in readme] == []


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - {"phone_batteries"}))
def test_the_linter_finds_nothing_that_an_example_does_not_mean(name: str) -> None:
    """The batteries show a hot key, and what the linter says of it."""
    tables = [value for value in vars(EXAMPLES[name]).values() if isinstance(value, Table)]
    assert [str(found) for table in tables for found in table.lint()] == []
