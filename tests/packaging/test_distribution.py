"""What a user gets by installing odm: one package, complete, light to import."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VENDORS = (
    *("aiobotocore", "boto3", "botocore", "google", "grpc", "httptools", "pyqwest", "rich", "sqlalchemy"),
    "typer",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """A wheel built from the sdist of a copy of the tree, so that no leftover of an earlier build gets in."""
    source, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("odm", "backends", "patterns"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return zipfile.Path(next(dist.glob("*.whl")))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.Path) -> Message:
    return Parser().parsestr((dist_info(wheel) / "METADATA").read_text())


def dist_info(wheel: zipfile.Path) -> zipfile.Path:
    return next(entry for entry in wheel.iterdir() if entry.name.endswith(".dist-info"))


def files_of_tree() -> set[str]:
    """Every file below odm/, links followed."""
    folders = os.walk(ROOT / "odm", followlinks=True)
    paths = [Path(folder, name).relative_to(ROOT) for folder, _, names in folders for name in names]
    return {path.as_posix() for path in paths if "__pycache__" not in path.parts}


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter, in which the packages of `folder` come first."""
    environ = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


def test_odm_is_the_only_top_level_package(wheel: zipfile.Path) -> None:
    assert {entry.name for entry in wheel.iterdir()} == {"odm", dist_info(wheel).name}


def test_the_wheel_holds_every_file_of_the_package(wheel: zipfile.Path) -> None:
    files = {name for name in wheel.root.namelist() if not name.endswith("/")}
    assert {name for name in files if name.startswith("odm/")} == files_of_tree()


@pytest.mark.parametrize(
    "path", ["odm/py.typed", "odm/backends/local/__init__.py", "odm/backends/dynamodb/__init__.py"]
)
def test_types_and_linked_folders_are_in_the_wheel(wheel: zipfile.Path, path: str) -> None:
    assert path in wheel.root.namelist()


def test_the_unpacked_wheel_imports_from_itself(wheel: zipfile.Path, tmp_path: Path) -> None:
    wheel.root.extractall(tmp_path)
    code = "import odm.backends.local, odm.patterns; odm.Store; print(odm.__file__, odm.backends.__file__)"
    result = run(code, tmp_path)
    assert result.stdout.split() == [str(tmp_path / "odm/__init__.py"), str(tmp_path / "odm/backends/__init__.py")], (
        result.stderr
    )


@pytest.mark.full
def test_an_installed_odm_brings_its_pytest_plugin(wheel: zipfile.Path, tmp_path: Path) -> None:
    wheel.root.extractall(tmp_path / "installed")
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_it.py").write_text(
        "def test_not_loaded():\n"
        "    import sys\n"
        "    assert 'pydantic' not in sys.modules\n"
        "\n"
        "def test_fixture(odm_memory):\n"
        "    from odm import Entity, PrimaryKey, Table\n"
        "    class Note(Entity, table=Table('notes')):\n"
        "        number: str\n"
        "        primary = PrimaryKey('{number}')\n"
        "    db = odm_memory(Note.__odm_table__)\n"
        "    assert db.put(Note(number='1')) == db.get(Note, number='1')\n"
    )
    for options, outcome in (("", "2 passed"), ("-p no:odm", "1 passed, 1 error")):
        code = f"import sys, pytest; sys.exit(pytest.main('-W error -p no:asyncio {options} {tests}'.split()))"
        assert outcome in run(code, tmp_path / "installed").stdout


def test_next_to_the_other_odm_it_says_what_to_do(wheel: zipfile.Path, tmp_path: Path) -> None:
    wheel.root.extractall(tmp_path)
    assert run("from odm import Store", tmp_path).returncode == 0
    (tmp_path / "odm-2.0.0.dist-info").mkdir()
    for code in ("from odm import Store", "import odm.backends.local", "from odm.cli.app import main"):
        assert "ImportError" in (failed := run(code, tmp_path).stderr)
        assert "has odm-2.0.0 and single-table-odm" in failed
    (tmp_path / "odm" / "__init__.py").write_text('"""The other one."""')
    assert "pip uninstall odm single-table-odm" in run("import odm.backends.local", tmp_path).stderr


def test_the_list_of_packages_is_complete() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    modules = (Path(name) for name in files_of_tree() if name.endswith(".py"))
    assert listed == sorted({".".join(module.parent.parts) for module in modules})


@pytest.mark.full
@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="the tree is not a clone")
def test_a_clone_without_symbolic_links_installs(tmp_path: Path) -> None:
    """As on Windows, where `odm/backends` and `odm/patterns` arrive as text files."""
    clone, target = tmp_path / "clone", tmp_path / "target"
    subprocess.run(["git", "clone", "-q", "-c", "core.symlinks=false", str(ROOT), str(clone)], check=True)
    shutil.copy(ROOT / "pyproject.toml", clone)  # as it is now, committed or not
    assert (clone / "odm" / "backends").is_file()
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "-q"]
    code = "import odm.backends.dynamodb, odm.patterns.pointer, sys; sys.stdout.write(odm.backends.__file__)"
    plain = subprocess.run([*pip, "--target", str(target), str(clone)], capture_output=True, text=True, check=False)
    assert plain.returncode == 0, plain.stderr
    assert run(code, target).stdout == str(target / "odm" / "backends" / "__init__.py")
    (tmp_path / "editable").mkdir()
    editable = [*pip, "--target", str(tmp_path / "editable"), "--editable", str(clone)]
    done = subprocess.run(editable, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Only this installation of odm is looked at, not the one that runs the tests.
    alone = f"""
import site, sys
from pathlib import Path
sys.path = [path for path in sys.path if not Path(path, "odm").is_dir()]
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
for name in [name for name in sys.modules if "editable" in name]:
    del sys.modules[name]
sys.path.insert(0, {str(tmp_path / "editable")!r})
site.addsitedir(sys.path[0])
"""
    assert run(alone + code, tmp_path).stdout == str(clone / "backends" / "__init__.py")
    module = "tests/backends/local/test_transactions.py"
    ran = run(f"{alone}import pytest; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', {module!r}]))", clone)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (tmp_path / "other" / "odm").mkdir(parents=True)
    (tmp_path / "other" / "odm" / "__init__.py").write_text('"""The other one."""')
    found = run(f"{alone}sys.path.append({str(tmp_path / 'other')!r})\nimport odm.cli.app", tmp_path)
    assert "is of another distribution that installs a package called odm" in found.stderr


def test_metadata_names_extras_and_license(metadata: Message) -> None:
    assert metadata["Name"] == "single-table-odm"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata.get_all("Provides-Extra", [])) == {
        "async",
        "beam",
        "bench",
        "bigtable",
        "blobs",
        "cli",
        "docs",
        "dynamodb",
        "emulator",
        "fast",
        "sql",
        "test",
        "test-beam",
        "zstd",
    }


def test_a_plain_install_needs_no_vendor_package(metadata: Message) -> None:
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert sorted(line.split(">=")[0] for line in required) == ["attrs", "msgspec", "pydantic"]


@pytest.mark.parametrize("folder", ["backends", "patterns"])
def test_linked_folders_refuse_their_own_name(folder: str) -> None:
    result = run(f"import {folder}", ROOT)
    assert f"ImportError: import odm.{folder}" in result.stderr


def test_import_odm_loads_no_vendor_package() -> None:
    # The star loads every public name and with it the whole core; import odm alone loads next to nothing.
    code = f"from odm import *; Store; import sys; print([name for name in {VENDORS} if name in sys.modules])"
    result = run(code, ROOT)
    assert result.stdout.strip() == "[]", result.stderr
