"""`odm import` and `odm inspect` on hostile data: nothing in it becomes code, and what cannot be used is an OdmError."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.backends.dynamodb.canned import Answer, serving
from tests.cli.conftest import Application, Run

CODE = 'shop"""\nimport os; os.system("touch ran")\n"""'
"""The name of a table: as the docstring of a module it ends the docstring, and then runs a command."""


def described(name: str) -> dict[str, Any]:
    """The answer of DescribeTable."""
    return {
        "TableName": name,
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    }


def modelled(name: str) -> dict[str, Any]:
    """A Workbench file with one table."""
    key = {"PartitionKey": {"AttributeName": "pk", "AttributeType": "S"}}
    return {"DataModel": [{"TableName": name, "KeyAttributes": key, "TableData": [{"pk": {"S": "a"}}]}]}


def test_the_table_name_of_a_workbench_file_runs_nothing(application: Application, run: Run) -> None:
    (application.folder / "hostile.json").write_text(json.dumps(modelled(CODE)))
    done = run("import", "hostile.json")
    assert not (application.folder / "ran").exists()
    assert done.code == 2
    assert "'shop\"\"\"" in done.line


def test_the_table_name_that_an_endpoint_answers_runs_nothing(
    application: Application, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "k")
    bodies: list[Any] = [
        {"Table": described(CODE)},
        {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}},
        {"Items": [{"pk": {"S": "a"}}]},
    ]
    with serving(lambda: Answer(json.dumps(bodies.pop(0)).encode())) as server:
        done = run("inspect", f"dynamodb:eu-west-1?endpoint_url={server.endpoint}", "shop")
    assert not (application.folder / "ran").exists()
    assert done.code == 1
    assert "'shop\"\"\"" in done.line


assert Path
