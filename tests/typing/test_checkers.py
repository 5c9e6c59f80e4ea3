"""mypy and pyright know the type of every public entry, and both find what is wrong with a query.

Each checker runs once over entries.py, where every `assert_type` must hold, over keys_correct.py, about which it must
be silent, and over files with mistakes. mypy has odm's plugin; see test_keys.py.
It is one test a checker: workers that share out several would each start the checker, and mypy fails next to another.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests import type_checker
from tests.typing.keys_mistakes import BOTH, IMPORTS, MYPY

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RIGHT = [HERE / name for name in ("entries.py", "keys_models.py", "keys_correct.py")]
MISTAKES_ARE = """\
from odm import *
from odm.backends.local import Faults, Memory
from tests.typing.entries import NOW, Order, key, order, shop
db = Store(shop, Memory())
"""
MISTAKES = [
    "Order.totl",
    "Order.total > 'x'",
    "Order.note > 'a'",
    "Order.placed_at >= 5",
    "some(Order.note) > 5",
    "select(Order).where(Order.totl > 5)",
    "select(Order).where('total > 5')",
    "select(Order).limit('5')",
    "select(order)",
    "select('Order')",
    "collection(Order)",
    "set_(Order.totl, 5)",
    "size(Order.lines) > 'x'",
    "starts_with(Order.total, 'x')",
    "increment(Order.order_id)",
    "add_value(Order.order_id, 1)",
    "append(Order.total, 'x')",
    "add_to(Order.lines, 'x')",
    "not_(5)",
    "db.get('Order', order_id='o')",
    "db.get(key, consitent=True)",
    "db.get(order)",
    "db.one(select(Order)).totl",
    "db.get(key).total",
    "db.put(key)",
    "db.put(order, when='x')",
    "db.update(order, returning='all')",
    "db.update(order, Order.total > 5)",
    "db.update(order, exists(Order.note))",
    "db.query(Order)",
    "db.page(key, size='5')",
    "db.scan(order)",
    "db.explain(order, write='upsert')",
    "Order(customer_id='c', order_id='o')",
    "Order('c', 'o', NOW)",
    "Order.primary('c')",
    "list(key)",
    "len(key)",
    "key[0]",
    "db.get(Order, 'c')",
    "db.first(Order)",
    "db.scan(Order.total > 5)",
    "db.update(order, note='x')",
    "db.update(Order, set_(Order.note, 'x'), order_id='o')",
    "db.batch().delete(order, order_id='o')",
    "Store(Memory(), shop)",
    "Store(shop, Memory)",
    "Store(shop)",
    "Store('shop', Memory())",
    "Table('shop', row_key_join='/')",
    "Table('shop', layout='wide')",
    "Table('shop', row_style='verbatim', layout='row_per_partition')",
    "Table('shop', row_style='verbatim', transactions=True)",
    "Table('shop', transactions='yes')",
    "Store(shop, Memory(), limits='none')",
    "Store(shop, Memory(), on_unknown='ignore')",
    "Store(shop, Memory(), on_request=lambda: None)",
    "Store(shop, Memory(), clock=12.5)",
    "db.scan(Order, segment=4)",
    "db.transaction().put(key)",
    "db.transaction().update(order, returning='old')",
    "db.transaction().update(Order.primary(customer_id='c'), returning='new')",
    "db.delete(Order, 'c')",
    "Order.primary(customer_id='c').where(total=5)",
    "db.save(order.primary)",
    "db.transaction().save(key)",
    "order.save()",
    "db.transaction().check(Order.total > 5)",
    "Shards('8')",
    "AccessPattern('A', shards=8)",
    "AccessPattern('A', local='yes')",
    "Faults().throttle('putt')",
    "Faults().fail('put', time=1)",
    "Memory(lag=1)",
    "upgrade(1)",
    "upgrade(from_='1')",
    "AccessPattern('A', when='x')",
    "PrimaryKey(5)",
]

Found = dict[tuple[str, int], str]
"""By file name and line: what the checker says, or what is wrong."""


def mypy(*files: Path) -> Found:
    run = type_checker.mypy("--output", "json", *files)
    assert run.returncode in {0, 1}, run.stdout + run.stderr
    return {
        (Path(error["file"]).name, error["line"]): error["message"]
        for error in map(json.loads, run.stdout.splitlines())
        if error["severity"] == "error"
    }


def pyright(*files: Path) -> Found:
    # Otherwise it reads the packages of the `python` on PATH. The README's test command does not activate .venv, and
    # where that other Python has pydantic but not msgspec, the base of Procedure, its `E | None` becomes None.
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", *map(str, files)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode in {0, 1}, run.stdout + run.stderr
    errors = json.loads(run.stdout)["generalDiagnostics"]
    return {
        (Path(error["file"]).name, error["range"]["start"]["line"] + 1): error["message"]
        for error in errors
        if error["severity"] == "error"
    }


@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
@pytest.mark.slow
def test_every_public_entry_has_its_type_and_every_mistake_is_found(
    checker: Callable[..., Found], tmp_path: Path
) -> None:
    in_keys = [*BOTH, *(MYPY if checker is mypy else ())]
    there = write(tmp_path / "mistakes.py", MISTAKES_ARE, MISTAKES) | write(tmp_path / "in_keys.py", IMPORTS, in_keys)
    found = checker(*RIGHT, tmp_path / "mistakes.py", tmp_path / "in_keys.py")
    assert {place: says for place, says in found.items() if place not in there} == {}
    assert [mistake for mistake in (*MISTAKES, *in_keys) if mistake not in {there[place] for place in found}] == []
    first = MISTAKES_ARE.count("\n") + 1
    assert "totl" in found["mistakes.py", first]
    assert ">" in found["mistakes.py", first + 1]


def test_pyright_is_given_the_linked_packages() -> None:
    """It skips links below a folder without a word, and "no errors" would then be said of a part of odm only."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pyright"]
    links = {path.relative_to(ROOT).as_posix() for path in (ROOT / "odm").iterdir() if path.is_symlink()}
    assert {"odm", "odm/backends", "odm/patterns"} | links <= set(settings["include"])


def write(file: Path, before: str, mistakes: Sequence[str]) -> Found:
    """Write a file of mistakes; returns the mistake on each of its lines."""
    file.write_text(before + "".join(f"{mistake}\n" for mistake in mistakes))
    lines = [mistake for mistake in mistakes for _ in range(mistake.count("\n") + 1)]
    return {(file.name, line): mistake for line, mistake in enumerate(lines, before.count("\n") + 1)}
