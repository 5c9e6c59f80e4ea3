"""Tables that are kept in a file of the bundled engine."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from odm import BackendError
from odm.backends.bigtable.emulator import Emulator
from odm.backends.local import LocalFile
from odm.protocol.requests import CreateTables
from odm.schema.model import Schema
from tests.backends.bigtable.emulator.raw import INSTANCE, Raw, set_cell

RULE = {"gc_rule": {"max_num_versions": 1}}


def seen(raw: Raw) -> Any:
    """All tables and their rows."""
    tables = raw.call("ListTables", parent=INSTANCE, view=2).tables
    return [(one.SerializeToString(deterministic=True), raw.rows(one.name)) for one in tables]


def test_all_of_it_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "bigtable.db"
    with Emulator(file=path) as emulator:
        raw = Raw(emulator.address)
        table = raw.create("t", "d", "e", deletion_protection=True)
        raw.family(table, "rule", **RULE)
        other = raw.create("other", "d")
        for key in (b"\0", b"a", b"\xff\xfe", "é".encode()):
            cells = [set_cell("d", b"\xff", b"1"), set_cell("rule", b"", b"1"), set_cell("rule", b"", b"2", 2000)]
            raw.call("MutateRow", table_name=table, row_key=key, mutations=cells)
        gone = {"row_key": b"a", "mutations": [{"delete_from_row": {}}]}
        kept = {"row_key": b"b", "mutations": [set_cell("e", b"a", b"1")]}
        raw.call("MutateRows", table_name=table, entries=[gone, kept])
        rule = {"family_name": "d", "column_qualifier": b"n", "increment_amount": 1}
        raw.call("ReadModifyWriteRow", table_name=table, row_key=b"n", rules=[rule])
        raw.call("DropRowRange", name=table, row_key_prefix=b"\0")
        raw.call("ModifyColumnFamilies", name=other, modifications=[{"id": "d", "drop": True}])
        raw.call("DeleteTable", name=raw.create("dropped", "d"))
        emulator.collect_garbage()
        before = seen(raw)
        raw.close()
    with Emulator(file=path) as emulator:
        raw = Raw(emulator.address)
        assert seen(raw) == before
        assert [key for key, _ in raw.rows(table)] == [b"b", b"n", "é".encode(), b"\xff\xfe"]
        raw.close()


def test_a_write_that_was_answered_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "bigtable.db"
    command = [sys.executable, "-m", "odm.backends.bigtable.emulator", "--port", "0", "--file", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        raw = Raw(program.stdout.readline().strip().rsplit("=", 1)[1])
        table = raw.create("t", "d")
        for number in range(20):
            raw.call("MutateRow", table_name=table, row_key=b"%d" % number, mutations=[set_cell("d", b"a", b"1")])
        program.kill()
        raw.close()
    with Emulator(file=path) as emulator:
        raw = Raw(emulator.address)
        assert len(raw.rows(table)) == 20
        raw.close()


def test_files_that_are_not_its_own(tmp_path: Path) -> None:
    """A file of odm's own stores can have its tables, too; what is not a file of the engine is refused."""
    path = tmp_path / "shop.db"
    connection = LocalFile(path).connect(Schema(name="shop", entities={}, indexes={}))
    connection.call(CreateTables())
    connection.close()
    with Emulator(file=path) as emulator:
        raw = Raw(emulator.address)
        raw.create("shop", "d")
        raw.close()
    (tmp_path / "text.db").write_text("not a database" * 100)
    with pytest.raises(BackendError):
        Emulator(file=tmp_path / "text.db")
