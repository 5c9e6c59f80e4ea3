"""Tables that are kept in a file of the bundled engine."""

import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from odm import BackendError, BadValue
from odm.backends.bigtable.emulator import Emulator
from odm.backends.local import LocalFile
from odm.backends.local.file import FileTable
from odm.protocol.requests import CreateTables
from odm.schema.model import Schema
from tests.backends.bigtable.emulator.raw import INSTANCE, Raw, set_cell

pytestmark = pytest.mark.slow

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


def test_cells_of_a_family_that_was_dropped_are_gone(tmp_path: Path) -> None:
    """Also those of rows of which nothing is left, when a family of that name is made again."""
    path = tmp_path / "bigtable.db"
    with Emulator(file=path) as emulator:
        raw = Raw(emulator.address)
        table = raw.create("t", "d", "e")
        for key, family in ((b"a", "d"), (b"b", "e")):
            raw.call("MutateRow", table_name=table, row_key=key, mutations=[set_cell(family, b"a", b"1")])
        raw.call("ModifyColumnFamilies", name=table, modifications=[{"id": "d", "drop": True}])
        raw.family(table, "d")
        before = seen(raw)
        assert [key for key, _ in raw.rows(table)] == [b"b"]
        raw.close()
    with Emulator(file=path) as emulator:
        raw = Raw(emulator.address)
        assert seen(raw) == before
        raw.close()


def test_one_emulator_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "bigtable.db"
    with Emulator(file=path), pytest.raises(BackendError, match="another emulator has it open"):
        Emulator(file=path)
    Emulator(file=path).stop()


def test_one_that_cannot_start_lets_go_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bigtable.db"
    with pytest.raises(BadValue):
        Emulator(file=path, port=-1)
    Emulator(file=path).stop()


def test_what_the_file_does_not_take_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise sqlite3.OperationalError("disk is full")

    cell, other = [set_cell("d", b"a", b"1")], [set_cell("d", b"b", b"")]
    rule = {"family_name": "d", "column_qualifier": b"n", "append_value": b"x"}
    with Emulator(file=tmp_path / "bigtable.db") as emulator:
        raw = Raw(emulator.address)
        table = raw.create("t", "d")
        raw.call("MutateRow", table_name=table, row_key=b"a", mutations=cell)
        before = seen(raw)
        with monkeypatch.context() as patched:
            patched.setattr(FileTable, "apply", full)
            for method, request in (
                ("MutateRow", {"table_name": table, "row_key": b"a", "mutations": [{"delete_from_row": {}}]}),
                ("MutateRows", {"table_name": table, "entries": [{"row_key": b"b", "mutations": cell}]}),
                (
                    "CheckAndMutateRow",
                    {"table_name": table, "row_key": b"a", "true_mutations": other},
                ),
                ("ReadModifyWriteRow", {"table_name": table, "row_key": b"a", "rules": [rule]}),
                ("DropRowRange", {"name": table, "delete_all_data_from_table": True}),
                ("ModifyColumnFamilies", {"name": table, "modifications": [{"id": "d", "drop": True}]}),
                ("CreateTable", {"parent": INSTANCE, "table_id": "new"}),
                ("DeleteTable", {"name": table}),
            ):
                assert raw.code(method, **request) == "INTERNAL", method
        assert seen(raw) == before
        raw.close()


def test_a_write_of_a_table_that_was_deleted_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "bigtable.db"
    with Emulator(file=path) as emulator:
        raw = Raw(emulator.address)
        table = raw.create("t", "d")
        held: Any = emulator._tables.get(table)
        cell = {"table_name": table, "row_key": b"ghost", "mutations": [set_cell("d", b"a", b"1")]}
        codes = list[str]()
        with ThreadPoolExecutor(2) as pool:
            with held.changed:
                waiting = pool.submit(raw.code, "MutateRow", **cell)
                time.sleep(0.2)
                held.gone = True
                codes.append(raw.code("ReadRows", table_name="projects/p/instances/i/tables/x"))
            codes.append(waiting.result())
        assert codes == ["NOT_FOUND", "NOT_FOUND"]
        raw.close()


def test_files_that_are_not_its_own(tmp_path: Path) -> None:
    """A file of odm's own stores can have its tables, too; what is not a file of the engine is refused."""
    path = tmp_path / "shop.db"
    connection = LocalFile(path).connect(Schema(name="bigtable", entities={}, indexes={}))
    connection.call(CreateTables())
    connection.close()
    with Emulator(file=path) as emulator:
        raw = Raw(emulator.address)
        raw.create("shop", "d")
        raw.close()
    (tmp_path / "text.db").write_text("not a database" * 100)
    with pytest.raises(BackendError):
        Emulator(file=tmp_path / "text.db")
