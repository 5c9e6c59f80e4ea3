"""Every fact of the tables has its outcome on every server: see `tests.facts.fact`.

By default, Memory is asked for all facts, Dynoxide for a third and LocalFile and DynamoDB Local for a sixth of them
each; with ``--full``, all for all.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from odm import OdmError, Store
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.protocol.connection import Backend
from tests.facts.fact import SERVERS, Case, Fact
from tests.facts.model import facts
from tests.facts.page import PAGE, page
from tests.facts.tables import TABLES

ASKED_FOR_SOME = {"Dynoxide": 3, "LocalFile": 6, "DynamoDB Local": 6}
FIXTURES = {"DynamoDB Local": "dynamodb_local", "Dynoxide": "dynoxide"}


def test_the_page_shows_the_tables() -> None:
    """``python -m tests.facts.page`` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_each_fact_has_a_source() -> None:
    sources = {fact.source for rows in TABLES.values() for fact in rows}
    assert {source for source in sources if not re.fullmatch(r"L|D [\w.-]+|S \w+/\w+", source)} == set()
    assert sum(map(len, TABLES.values())) >= 250


def asked() -> Iterator[Any]:
    """Each fact on each server; with a mark where the server is wrong."""
    for server in SERVERS:
        for area, rows in TABLES.items():
            for number, fact in enumerate(rows):
                marks = [pytest.mark.one_of(ASKED_FOR_SOME[server])] if server in ASKED_FOR_SOME else []
                if server in fact.wrong:
                    marks.append(pytest.mark.xfail(reason=fact.wrong[server], strict=True))
                name = f"{area}-{number}"
                yield pytest.param(server, name, fact, id=f"{server}-{name}-{fact.text}", marks=marks)


@pytest.fixture(scope="module")
def opened() -> Iterator[dict[str, Store]]:
    """The stores of the table that tests have opened, by server: all facts share one."""
    stores: dict[str, Store] = {}
    yield stores
    for store in stores.values():
        store.drop()
        store.close()


@pytest.fixture
def db(server: str, opened: dict[str, Store], request: pytest.FixtureRequest) -> Store:
    if server not in opened:
        backend = backend_of(server, request)
        opened[server] = Store(facts, backend)
        opened[server].create()
    return opened[server]


def backend_of(server: str, request: pytest.FixtureRequest) -> Backend:
    match server:
        case "Memory":
            return Memory()
        case "LocalFile":
            folder: Path = request.getfixturevalue("tmp_path_factory").mktemp("facts")
            return LocalFile(folder / "facts.db")
        case _:
            session = boto3.Session("facts", "secret", region_name="eu-west-1")
            return DynamoDB(session, endpoint_url=request.getfixturevalue(FIXTURES[server]))


@pytest.mark.parametrize(("server", "name", "fact"), list(asked()))
def test_a_fact(db: Store, name: str, fact: Fact) -> None:
    case = Case(db, name)
    if isinstance(fact.outcome, type) and issubclass(fact.outcome, OdmError):
        with pytest.raises(fact.outcome) as caught:
            fact.ask(case, *fact.given)
        assert type(caught.value) is fact.outcome
    else:
        assert fact.ask(case, *fact.given) == fact.outcome
