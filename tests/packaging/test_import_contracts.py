"""The import contracts of pyproject.toml fail when they should, through the links too.

They run on a small tree of the project's shape, so that each shows one import alone.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("cli", "testing", "stores", "procedures", "planner", "observe", "protocol", "schema", "codec")
BELOW = ("entities", "keys", "expressions")
ALLOWED = {
    "odm/__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import odm._public",
    "odm/_public.py": "import odm.stores",
    "odm/_moved.py": "import odm.changes, odm.extend, odm.results",
    "odm/concurrency.py": "",
    "odm/changes.py": "",
    "odm/extend.py": "",
    "odm/results.py": "",
    "odm/errors.py": "",
    "odm/cli/app.py": "import rich, typer\nimport odm, odm.backends.local.driver, odm.patterns.graph",
    "odm/testing/suite.py": "import odm, odm.backends.local, odm.patterns.graph, odm.protocol.requests, odm.extend",
    "odm/testing/stores.py": "import odm.schema.model",
    "odm/schema/model.py": "",
    "odm/protocol/requests.py": "",
    "odm/cli/inspect/design.py": "import odm, odm.results, odm.schema.model",
    "odm/cli/demo/run.py": "import odm, odm.backends.local",
    "backends/bigtable/emulator/data.py": "import odm, odm.extend, odm.backends.bigtable.emulator.tables",
    "backends/bigtable/emulator/tables.py": "",
    "odm/stores/store.py": "import odm, odm.procedures, odm.protocol, odm.schema, odm.errors",
    "backends/dynamodb/driver.py": "import boto3, botocore, aiobotocore\nimport odm.schema, odm.codec, odm.errors",
    "backends/bigtable/driver.py": "import google.cloud.bigtable, grpc\nimport odm.protocol, odm.expressions",
    "backends/local/driver.py": "import odm.backends.local.schema, odm.keys",
    "backends/local/schema.py": "",
    "odm/beam.py": "import apache_beam\nimport odm.patterns.pointer\nimport odm",
    "odm/mypy/__init__.py": "import mypy.plugin\nimport odm",
    "patterns/graph.py": "import odm, odm.changes, odm.extend, odm.results\nimport odm.patterns.pointer",
    "patterns/pointer.py": "import odm",
}
NOT_CORE_FOLDERS = ("backends/bigtable/emulator", "odm/cli/demo", "odm/cli/inspect")
ONE_WAY = "imports point one way"
VENDOR = "only backends reach a vendor's package"
BACKEND = "a backend imports only what the compiler hands it"
NOT_CORE = "the emulator, the suite, odm inspect, the demo and the mypy plugin import public names"
BROKEN = [
    (ONE_WAY, "odm/schema/more.py", "import odm.stores"),
    (ONE_WAY, "odm/expressions/more.py", "import odm.keys"),
    (ONE_WAY, "odm/stores/more.py", "import odm.backends.local.driver"),
    (ONE_WAY, "odm/stores/more.py", "import odm.patterns.graph"),
    (ONE_WAY, "odm/stores/more.py", "import odm.results"),
    (ONE_WAY, "odm/unplaced.py", ""),
    ("no module imports itself by a detour", "backends/local/schema.py", "import odm.backends.local.driver"),
    (VENDOR, "odm/codec/more.py", "def late():\n    import boto3"),
    (VENDOR, "odm/stores/more.py", "from google.cloud import bigtable"),
    (VENDOR, "odm/stores/more.py", "import rich"),
    (VENDOR, "odm/entities/more.py", "import mypy.types"),
    (VENDOR, "odm/cli/more.py", "import botocore.config"),
    (BACKEND, "backends/local/more.py", "import odm"),
    (BACKEND, "backends/local/more.py", "import odm.stores.store"),
    (BACKEND, "backends/bigtable/more.py", "import odm._public"),
    (BACKEND, "backends/dynamodb/more.py", "import odm.entities"),
    (BACKEND, "backends/dynamodb/more.py", "import odm.procedures"),
    (BACKEND, "backends/bigtable/more.py", "import odm.planner"),
    (ONE_WAY, "odm/protocol/more.py", "import odm.planner"),
    (ONE_WAY, "odm/planner/more.py", "import odm.observe"),
    (ONE_WAY, "odm/observe/more.py", "import odm.procedures"),
    ("backends do not know one another", "backends/dynamodb/more.py", "import odm.backends.local.driver"),
    ("a pattern imports only the public odm", "patterns/more.py", "import odm.errors"),
    ("a pattern imports only the public odm", "patterns/more.py", "import odm.concurrency"),
    ("a pattern imports only the public odm", "odm/beam.py", "import odm.stores"),
    (NOT_CORE, "backends/bigtable/emulator/more.py", "import odm.errors"),
    (NOT_CORE, "odm/testing/more.py", "import odm.stores"),
    (NOT_CORE, "odm/testing/more.py", "import odm.schema.model"),
    (NOT_CORE, "odm/cli/inspect/more.py", "import odm.codec"),
    (NOT_CORE, "odm/cli/demo/more.py", "import odm.stores"),
    (NOT_CORE, "odm/mypy/more.py", "import odm.entities"),
    (VENDOR, "patterns/more.py", "import apache_beam"),
    (ONE_WAY, "patterns/more.py", "import odm.beam"),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree in which every import is allowed."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in (*(f"odm/{layer}" for layer in (*LAYERS, *BELOW)), *NOT_CORE_FOLDERS, "backends", "patterns"):
        write(tmp_path, f"{folder}/__init__.py", "")
    for backend in ("bigtable", "dynamodb", "local"):
        write(tmp_path, f"backends/{backend}/__init__.py", "")
    for path, code in ALLOWED.items():
        write(tmp_path, path, code)
    for link in ("backends", "patterns"):
        (tmp_path / "odm" / link).symlink_to(Path("..", link))
    return tmp_path


def write(tree: Path, path: str, code: str) -> None:
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(code + "\n")


def broken_contracts(tree: Path) -> list[str]:
    """Runs the contracts on the tree; gives the names of the broken ones."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-logo"]
    result = subprocess.run(command, cwd=tree, capture_output=True, text=True, env={"COLUMNS": "200"}, check=False)
    assert "Contracts: " in result.stdout, result.stdout + result.stderr
    return [line.split(" BROKEN")[0] for line in result.stdout.splitlines() if " BROKEN" in line]


def test_what_the_design_allows_breaks_nothing(tree: Path) -> None:
    assert broken_contracts(tree) == []


@pytest.mark.parametrize(("contract", "path", "code"), BROKEN, ids=[f"{path}: {code}" for _, path, code in BROKEN])
@pytest.mark.slow
def test_a_forbidden_import_breaks_its_contract(tree: Path, contract: str, path: str, code: str) -> None:
    write(tree, path, code)
    assert any(name.startswith(contract) for name in broken_contracts(tree))
