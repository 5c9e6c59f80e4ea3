"""The command line within this process, in a folder with an application in it."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from odm.cli.app import main

SHOP = """
from datetime import datetime
from decimal import Decimal
from typing import Literal

from odm import AccessPattern, Entity, PrimaryKey, Table

shop = Table("shop")


class Customer(Entity, table=shop):
    customer_id: str
    email: str

    primary = PrimaryKey("CUSTOMER#{customer_id}", "PROFILE")
    by_email = AccessPattern("EMAIL#{email}")


class Order(Entity, table=shop):
    customer_id: str
    order_id: str
    placed_at: datetime
    status: Literal["open", "shipped"] = "open"
    total: Decimal

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
    by_date = AccessPattern("CUSTOMER#{customer_id}", "PLACED#{placed_at}#{order_id}")
"""


class Done(NamedTuple):
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line that it failed with."""
        assert self.err.startswith("odm: ")
        assert self.err.count("\n") == 1
        return self.err


Run: TypeAlias = Callable[..., Done]


class Application:
    """A folder with modules in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, source: str, name: str = "shop.py") -> None:
        """Write a module; the next run imports it again."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source, encoding="utf-8")
        _forget(self.folder)

    def change(self, *changes: tuple[str, str]) -> None:
        """Replace texts in shop.py."""
        source = (self.folder / "shop.py").read_text(encoding="utf-8")
        for old, new in changes:
            assert old in source
            source = source.replace(old, new)
        self.write(source)


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    """A folder with the module ``shop``, in which the process now is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # modules change faster than the clock of the file system
    made = Application(tmp_path)
    made.write(SHOP)
    yield made
    _forget(tmp_path)


def _forget(folder: Path) -> None:
    for name, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def run(application: Application, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line in that folder."""

    def run_it(*arguments: str) -> Done:
        _forget(application.folder)
        monkeypatch.setattr(sys, "argv", ["odm", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        assert isinstance(code, int)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run_it
