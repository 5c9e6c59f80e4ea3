"""docs/differences.md shows the actual responses of the services, and names the tests that they fail."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

from tests.conformance import bigtable_probes, dynoxide, moto
from tests.conformance import dynamodb_local as local
from tests.conformance.probes import PROBES, Service, outcome

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")


def table(first: str) -> list[dict[str, str]]:
    """The rows of the table whose first column has this title, each as a dict by column title."""
    lines = re.search(rf"^\| {first} \|.*\n(?:\|.*\n)+", PAGE, re.MULTILINE)
    assert lines is not None
    titles, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()]
    return [dict(zip(titles, row, strict=True)) for row in rows]


@pytest.fixture(scope="module", params=["moto", "DynamoDB Local", "Dynoxide"])
def service(request: pytest.FixtureRequest) -> Iterator[tuple[str, Service]]:
    fixture = {"moto": "moto_server", "DynamoDB Local": "dynamodb_local", "Dynoxide": "dynoxide"}[request.param]
    session = boto3.Session("differences", "secret", region_name="eu-west-1")
    config = Config(parameter_validation=False, retries={"total_max_attempts": 1})
    client = session.client("dynamodb", endpoint_url=request.getfixturevalue(fixture), config=config)
    service = Service(client, "differences")
    service.create()
    yield request.param, service
    client.delete_table(TableName=service.table)
    client.close()


@pytest.mark.parametrize("probe", PROBES)
def test_a_service_answers_as_documented(probe: str, service: tuple[str, Service]) -> None:
    name, on = service
    said = {row["request"]: row for row in table("request")}
    assert outcome(on, PROBES[probe]) == said[probe][name]


def test_every_request_of_the_page_is_sent() -> None:
    assert [row["request"] for row in table("request")] == list(PROBES)


@pytest.mark.parametrize(
    ("name", "faults"), [("moto", moto.FAULTS), ("DynamoDB Local", local.FAULTS), ("Dynoxide", dynoxide.FAULTS)]
)
def test_the_page_names_what_a_service_fails(name: str, faults: Mapping[str, str]) -> None:
    said = {row["test"].strip("`"): row[name] for row in table("test") if row[name] != "passes"}
    assert said == {test: re.sub(rf"^{name} [\d.]+ ", "", reason) for test, reason in faults.items()}


def test_every_source_is_named() -> None:
    named = set(re.findall(r"^\* (\[\w+\]):", PAGE, re.MULTILINE))
    assert {row["source"] for row in (*table("request"), *table("test"), *table("to Bigtable"))} == named


def test_the_bigtable_emulator_answers_as_documented(bigtable_emulator: str) -> None:
    emulator = bigtable_probes.Emulator(bigtable_emulator)
    answers = {name: bigtable_probes.outcome(emulator, probe) for name, probe in bigtable_probes.PROBES.items()}
    emulator.close()
    assert answers == {row["to Bigtable"]: row["emulator"] for row in table("to Bigtable")}
