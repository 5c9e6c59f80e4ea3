"""The pages "Coming from": the programs of other libraries run on the same tables as those of odm, both ways.

Each page runs from top to bottom: its JavaScript with Node and its Python here, and each prints what the page shows.
Then the other library writes items whose values are easily lost; odm reads all of them, and writes the same bytes.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import copy
from typing import Any

import boto3
import pytest

from odm import Entity, Store, Table
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.admin import Admin
from odm.entities.markers import RevisionMarker, UpdatedAtMarker, find_marker
from tests import node
from tests.coming_from import pydynantic_items
from tests.readme import Block, blocks
from tests.test_readme import ROOT, run

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
JAVASCRIPT = ["dynamodb_toolbox", "dynamoose", "electrodb", "onetable"]


@pytest.fixture(params=["dynoxide", pytest.param("dynamodb_local", marks=pytest.mark.full)])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of the service that the programs of the pages find in their environment."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", request.getfixturevalue(request.param))
    monkeypatch.setenv("AWS_REGION", "eu-west-1")  # for the SDK for JavaScript
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "comingfrom")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it may have other keys
    return boto3.client("dynamodb", region_name="eu-west-1")


@pytest.fixture
def names(client: Any) -> Iterator[dict[str, Any]]:
    """The names of the Python of a page; its tables are deleted afterwards."""
    names: dict[str, Any] = {"__name__": "__main__"}
    yield names
    for table in tables_of(names):
        with suppress(client.exceptions.ResourceNotFoundException):
            client.delete_table(TableName=table.name)


def tables_of(names: dict[str, Any]) -> list[Table]:
    return [value for value in names.values() if isinstance(value, Table)]


@pytest.fixture
def program(tmp_path: Path, node_modules: Path) -> Callable[..., str]:
    """Runs the program next to this module that belongs to a page, after the JavaScript of the page."""

    def run_program(page: str, argument: str) -> str:
        copy(HERE / "show.mjs", tmp_path)
        return node.printed(Path(copy(HERE / f"{page}.mjs", tmp_path)), node_modules, argument)

    return run_program


@pytest.fixture
def javascript(tmp_path: Path, node_modules: Path) -> dict[str, Callable[[Block], str]]:
    return {"js": partial(run_javascript, folder=tmp_path, modules=node_modules)}


@pytest.mark.parametrize("page", JAVASCRIPT)
def test_javascript_and_odm_share_tables(
    page: str, names: dict[str, Any], client: Any, javascript: Any, program: Callable[..., str]
) -> None:
    run_page(page, names, javascript)
    check_both_ways(tables_of(names), client, partial(program, page))


def test_the_items_on_the_page_on_electrodb_are_those_that_it_writes(
    names: dict[str, Any], client: Any, javascript: Any, program: Callable[..., str]
) -> None:
    run_page("electrodb", names, javascript)
    clear(names["projects"], client)
    program("electrodb", "page")
    stored = {item["pk"]: item for item in names["table"].scan()["Items"]}
    assert stored == {item["pk"]: item for item in names["written"]}


def test_pydynantic_and_odm_share_a_table(names: dict[str, Any], client: Any) -> None:
    run_page("pydynantic", names, {})
    check_both_ways(tables_of(names), client, lambda call: getattr(pydynantic_items, call)(names))


def run_page(page: str, names: dict[str, Any], others: dict[str, Callable[[Block], str]]) -> None:
    shown = blocks(ROOT / "docs" / f"coming_from_{page}.md")
    run([block for block in shown if block.language in {"python", "text", *others}], names, others)


def run_javascript(block: Block, folder: Path, modules: Path) -> str:
    """Store an example in the file that its first line names, and run it, unless it only defines what others import."""
    file = folder / block.text.partition("\n")[0].removeprefix("// ")
    file.write_text(block.text, encoding="utf-8")
    return "" if "\nexport " in block.text else node.printed(file, modules)


def check_both_ways(tables: list[Table], client: Any, other: Callable[[str], Any]) -> None:
    """Check that odm reads all that the other library wrote, and writes the same bytes, which that library can update.

    Args:
        tables: those of odm.
        client: boto3's.
        other: lets the other library "write" items, "update" some, or "read" all, which returns their text.
    """
    for table in tables:
        clear(table, client)
    other("write")
    read_before = other("read")
    assert read_before
    for table in tables:
        before = contents(table, client)
        check_findings(table, len(before))
        rewrite_all(table)
        assert contents(table, client) == before
    assert other("read") == read_before
    other("update")
    assert other("read") != read_before
    for table in tables:
        check_findings(table, len(contents(table, client)))


def check_findings(table: Table, count: int) -> None:
    """Check that `odm plan` finds nothing to do: each item is read, has the keys of its fields, and a put keeps it."""
    survey = Admin(DynamoDB(region="eu-west-1"), table.compile()).survey(1000)
    assert (survey.read, [*survey.changes, *survey.findings]) == (count, [])


def clear(table: Table, client: Any) -> None:
    """Delete all items of the table."""
    for item in contents(table, client).values():
        client.delete_item(TableName=table.name, Key={name: item[name] for name in table.compile().keys})


def rewrite_all(table: Table) -> None:
    """Delete each item, and put it again from the values of its fields, at the time of its last change."""
    now = [0.0]
    with Store(table, DynamoDB(region="eu-west-1"), clock=lambda: now[0]) as db:
        for entity in list(db.scan()):
            db.delete(entity)
            now[:] = [getattr(entity, name).timestamp() for name in marked(entity, UpdatedAtMarker)] or [0.0]
            values = {name: getattr(entity, name) for name in entity.model_fields_set}
            unwritten = dict.fromkeys(marked(entity, RevisionMarker), 0)
            db.put(type(entity)(**values | unwritten))


def marked(entity: Entity, kind: type[Any]) -> list[str]:
    """The fields with this marker."""
    return [name for name, info in type(entity).model_fields.items() if find_marker(info, kind)]


def contents(table: Table, client: Any) -> dict[str, dict[str, Any]]:
    """All items of the table as they are, by their keys; sets in the order of their members."""
    items: list[dict[str, Any]] = client.scan(TableName=table.name)["Items"]
    for value in (value for item in items for value in item.values() if "SS" in value):
        value["SS"].sort()
    return {str([item[name] for name in table.compile().keys]): item for item in items}
