"""`odm rotate`: the steps that it prints, asks about and makes, on a file and in both clouds."""

import io
import json
import sys
import uuid
from datetime import UTC, date, datetime
from typing import Any

import boto3
import pytest

from odm.backends.local import LocalFile
from odm.cli.target import load_series
from odm.patterns.time_series import TimeSeries
from tests.cli.conftest import Application, Done, Run

METERS = """
from datetime import datetime

from odm import Entity, PrimaryKey, Table
from odm.backends.dynamodb import Provisioned, TableOptions
from odm.patterns.time_series import TimeSeries

meters = Table("meters")


class Reading(Entity, table=meters):
    meter: str
    at: datetime

    primary = PrimaryKey("METER#{meter}", "{at}")


readings = TimeSeries(Reading, by="at", period="month", keep=2, ahead=1, old=TableOptions(Provisioned(1, 1)))
wrong = TimeSeries(Reading, by="meter", period="month")
"""


@pytest.fixture
def series(application: Application) -> TimeSeries[Any]:
    application.write(METERS, "metered.py")
    return load_series("metered:readings")


def name(series: TimeSeries[Any], months: int) -> str:
    return series.name_of(series.shifted(series.period_of(datetime.now(UTC)), months))


def answers(run: Run, monkeypatch: pytest.MonkeyPatch, text: str, *arguments: str) -> Done:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    return run("rotate", "metered:readings", *arguments)


def test_it_asks_and_makes_the_steps(run: Run, series: TimeSeries[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    present, following, old = (name(series, months) for months in (0, 1, -3))
    with series.open(LocalFile("meters.db")) as db:
        db.store_of(date.fromisoformat(f"{old[-7:]}-01")).create()
    planned = [f"create  {present}", f"create  {following}"]
    kept = f"expired {old}: beyond the 2 periods to keep; drop=True (--drop) deletes it"
    refused = answers(run, monkeypatch, "no\n", "meters.db")
    assert (refused.code, refused.out.splitlines()) == (1, [*planned, kept])
    assert "Make 2 changes? [y/N] odm: the tables are unchanged" in refused.err
    dry = answers(run, monkeypatch, "", "meters.db", "--dry-run", "--drop")
    assert (dry.code, dry.err) == (0, "")
    assert dry.out.splitlines() == [*planned, f"drop    {old}: with all its items: 0 items, 0 bytes"]
    done = answers(run, monkeypatch, "yes\n", "meters.db", "--drop")
    assert done.code == 0
    assert "Make 3 changes, 1 of which delete a table with its items? [y/N] ... create " in done.err
    again = answers(run, monkeypatch, "", "meters.db", "--drop")  # nothing to confirm
    assert (again.code, again.err) == (0, "")
    assert again.out.splitlines() == [f"check   {present}", f"check   {following}"]


def test_it_refuses_to_drop_most_tables(run: Run, series: TimeSeries[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a wrong clock, or keep= of another series."""
    with series.open(LocalFile("meters.db")) as db:
        for months in range(-6, 0):
            store = db.store_of(date.fromisoformat(f"{name(series, months)[-7:]}-01"))
            store.create()
        for second in range(3):
            store = db.store_of(date.fromisoformat(f"{name(series, -4)[-7:]}-01"))
            store.put(
                series.entity(meter="a", at=datetime.fromisoformat(f"{name(series, -4)[-7:]}-01T00:00:0{second}Z"))
            )
    refused = answers(run, monkeypatch, "yes\n", "meters.db", "--drop", "--yes")
    assert refused.code == 1
    assert f"drop    {name(series, -4)}: with all its items: 3 items, " in refused.out
    assert "would delete 5 of 8 tables with their items, so it changed nothing" in refused.line
    again = answers(run, monkeypatch, "", "meters.db", "--drop", "--remove-most")
    assert (again.code, "Make 7 changes, 5 of which delete a table with its items? [y/N]" in again.err) == (1, True)
    assert "there is" not in again.err
    done = answers(run, monkeypatch, "", "meters.db", "--drop", "--remove-most", "--yes")
    assert (done.code, done.out.count("drop ")) == (0, 5)


def test_json(run: Run, series: TimeSeries[Any]) -> None:
    done = run("rotate", "metered:readings", "file:meters.db?prefix=p-", "--json", "--yes")
    assert json.loads(done.out) == {
        "done": True,
        "steps": [{"kind": "create", "table": f"p-{name(series, months)}", "text": ""} for months in (0, 1)],
    }
    dry = json.loads(run("rotate", "metered:readings", "file:meters.db?prefix=p-", "--json", "--dry-run").out)
    assert (dry["done"], {step["kind"] for step in dry["steps"]}) == (False, {"check"})


def test_in_both_clouds(
    run: Run,
    series: TimeSeries[Any],
    dynamodb_local: str,
    bigtable_emulator: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, value in (("AWS_ACCESS_KEY_ID", "rotate"), ("AWS_SECRET_ACCESS_KEY", "secret")):
        monkeypatch.setenv(variable, value)
    prefix = f"{uuid.uuid4().hex[:12]}-"
    places = (
        f"dynamodb:eu-west-1?endpoint_url={dynamodb_local}&prefix={prefix}",
        f"bigtable:project/instance?endpoint={bigtable_emulator}&prefix={prefix}",
    )
    for place in places:
        assert run("rotate", "metered:readings", place, "--yes").code == 0
        assert run("rotate", "metered:readings", place, "--yes").out.startswith("check ")
    session = boto3.Session("rotate", "secret", region_name="eu-west-1")  # the default one may have other credentials
    client = session.client("dynamodb", endpoint_url=dynamodb_local)
    table = f"{prefix}{name(series, -1)}"
    keys = [{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk")]
    schema = [{"AttributeName": key, "KeyType": kind} for key, kind in (("pk", "HASH"), ("sk", "RANGE"))]
    client.create_table(TableName=table, AttributeDefinitions=keys, KeySchema=schema, BillingMode="PAY_PER_REQUEST")
    done = run("rotate", "metered:readings", places[0], "--yes")
    assert f"alter   {table}: billing: on-demand → 1 read and 1 write units" in done.out
    paid = client.describe_table(TableName=table)["Table"]["ProvisionedThroughput"]
    assert (paid["ReadCapacityUnits"], paid["WriteCapacityUnits"]) == (1, 1)
    assert "alter" not in run("rotate", "metered:readings", places[0], "--yes").out


@pytest.mark.parametrize(
    ("target", "code", "why"),
    [
        ("metered", 2, "'metered' does not name a time series: write module:series, as in meters.models:readings"),
        ("metered:", 2, "does not name a time series"),
        ("metered:meters", 2, "metered:meters is of type Table, not a TimeSeries; in the module: metered:readings"),
        ("metered:reading", 2, "metered has no 'reading'; did you mean 'readings'?"),
        ("metered:wrong", 1, "the primary key needs the month of a datetime or date"),
        ("missing:readings", 2, "there is no module 'missing'"),
    ],
)
def test_what_names_no_series(
    run: Run,
    series: TimeSeries[Any],
    target: str,
    code: int,
    why: str,
) -> None:
    done = run("rotate", target, "meters.db")
    assert (done.code, done.out) == (code, "")
    assert why in done.line
