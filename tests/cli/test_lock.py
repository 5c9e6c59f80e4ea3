"""`odm lock` and `odm check`: the file, the findings, and the exit codes that a continuous integration job sees."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.command_line import RUN, each, failure, odm, succeeded
from tests.cli.conftest import SHOP, Application, Run

EMAIL_MOVED = ('"EMAIL#{email}"', '"MAIL#{email}"')
WITH_STATUS = ("    by_date", '    by_status = AccessPattern("STATUS#{status}")\n    by_date')
WITH_NOTE = ("    email: str", '    email: str\n    note: str = ""')


def test_the_day_of_a_developer(run: Run, application: Application) -> None:
    first = run("lock", "shop:shop")
    assert (first.code, first.err) == (0, "")
    assert first.out == "table shop written to odm.lock: commit it\n"
    written = (application.folder / "odm.lock").read_bytes()
    assert b'"EMAIL#{email}"' in written
    assert str(application.folder).encode() not in written

    assert run("lock", "shop:shop").out == "table shop is already in odm.lock\n"
    assert run("check", "shop:shop") == (0, "table shop matches odm.lock: 2 entities, 2 patterns\n", "")

    application.change(EMAIL_MOVED)
    checked = run("check", "shop:shop")
    assert checked.code == 1
    assert checked.out == (
        'orphans   Customer.by_email: template "EMAIL#{email}" → "MAIL#{email}": entries of '
        "stored items stay in the partitions of the old template, so queries do not return most of them; odm backfill "
        "shop:shop Customer.by_email PLACE, or give the pattern a new index name and backfill it\n"
    )
    assert checked.line == (
        "odm: table shop does not match odm.lock: 1 change orphans stored data; "
        "when that is done, run odm lock shop:shop --accept\n"
    )
    refused = run("lock", "shop:shop")
    assert refused.code == 1
    assert refused.out == checked.out
    assert refused.line == (
        "odm: odm.lock is unchanged: 1 change orphans stored data; to lock the models anyway, add --accept\n"
    )
    assert (application.folder / "odm.lock").read_bytes() == written

    accepted = run("lock", "shop:shop", "--accept")
    assert accepted.code == 0
    assert accepted.out == checked.out + "table shop written to odm.lock: commit it\n"
    assert run("check", "shop:shop").code == 0


@pytest.mark.parametrize(("change", "level"), [(WITH_STATUS, "backfill"), (WITH_NOTE, "safe")])
def test_what_orphans_nothing_must_be_locked_too(
    change: tuple[str, str], level: str, run: Run, application: Application
) -> None:
    run("lock", "shop")
    application.change(change)
    checked = run("check", "shop")
    assert checked.code == 1
    assert checked.out.startswith(f"{level:<8}  ")
    assert ("create() the index, then odm backfill shop Order.by_status PLACE\n" in checked.out) is (
        level == "backfill"
    )
    before = {"backfill": "when that is done, run", "safe": "review that, then run"}[level]
    assert checked.line.endswith(f"; {before} odm lock shop\n")
    locked = run("lock", "shop")
    assert (locked.code, locked.err) == (0, "")
    assert locked.out.startswith(checked.out)
    assert run("check", "shop").code == 0


def test_json(run: Run, application: Application) -> None:
    assert json.loads(run("lock", "shop", "--json").out) == {
        "table": "shop",
        "file": "odm.lock",
        "written": True,
        "findings": [],
    }
    assert json.loads(run("check", "shop", "--json").out)["ok"] is True
    application.change(EMAIL_MOVED, WITH_STATUS)
    checked = run("check", "shop", "--json")
    assert checked.code == 1
    found = json.loads(checked.out)
    assert found["ok"] is False
    assert [(f["level"], f["where"], f["change"]) for f in found["findings"]] == [
        ("orphans", "Customer.by_email", "template"),
        ("backfill", "Order.by_status", "new pattern"),
    ]
    assert checked.line.startswith(
        "odm: table shop does not match odm.lock: 1 change orphans stored data, 1 needs a backfill; "
    )
    refused = run("lock", "shop", "--json")
    assert refused.code == 1
    assert json.loads(refused.out)["written"] is False


def test_several_tables_in_one_file(run: Run, application: Application) -> None:
    application.write(SHOP.replace('Table("shop")', 'Table("archive")'), "archive.py")
    run("lock", "shop", "--file", "keys.json")
    run("lock", "archive", "--file", "keys.json")
    assert sorted(json.loads((application.folder / "keys.json").read_text())["tables"]) == ["archive", "shop"]
    assert run("check", "shop", "--file", "keys.json").code == 0
    assert run("check", "archive", "--file", "keys.json").code == 0


def test_a_file_of_an_earlier_format(run: Run, application: Application) -> None:
    """The tables in a file are locked one by one, so each has its own format."""
    application.change(WITH_NOTE)
    application.write(SHOP.replace('Table("shop")', 'Table("archive")'), "archive.py")
    for module in ("shop", "archive"):
        run("lock", module)
    path = application.folder / "odm.lock"
    whole = json.loads(path.read_text())
    assert whole["format"] == 2
    for table in whole["tables"].values():
        assert table.pop("format") == 2
        for entity in table["entities"].values():
            for field in entity["fields"].values():
                field.pop("default", None)
    path.write_text(json.dumps({**whole, "format": 1}))
    effect = "was locked by an odm that did not record defaults, configuration, validators and narrow types"
    checked = run("check", "shop")
    assert checked.code == 1
    assert checked.out.startswith(f"backfill  table shop: format 1 → 2: the table {effect}, so that a change of ")
    assert "Customer.note" in checked.out
    assert run("lock", "shop").code == 0
    assert json.loads(path.read_text())["format"] == 2
    assert run("check", "shop").code == 0
    checked = run("check", "archive")
    assert checked.code == 1
    assert checked.out.startswith(f"backfill  table archive: format 1 → 2: the table {effect}, so that a change of ")
    assert checked.out.count("\n") == 1


def test_a_table_that_is_not_locked_yet(run: Run, application: Application) -> None:
    archive = "class Old(Entity, table=archive):\n    name: str\n    primary = PrimaryKey('OLD#{name}')\n"
    application.write(f"from odm import Entity, PrimaryKey, Table\narchive = Table('archive')\n{archive}", "archive.py")
    run("lock", "shop")
    checked = run("check", "archive")
    assert (checked.code, checked.out) == (1, "safe      table archive: not locked yet\n")


def test_a_table_under_a_new_name(run: Run, application: Application) -> None:
    run("lock", "shop")
    application.change(('Table("shop")', 'Table("store")'))
    checked = run("check", "shop")
    assert checked.code == 1
    assert checked.out.startswith(
        "backfill  table store: not locked yet, and one with the same entities is gone shop → store"
    )
    assert 'keep Table("shop"), or copy them' in checked.out
    locked = run("lock", "shop")
    assert locked.out.startswith(checked.out)
    assert locked.code == 0


def test_without_a_lock_file(run: Run) -> None:
    done = run("check", "shop:shop")
    assert (done.code, done.out) == (1, "")
    assert done.line == "odm: there is no file odm.lock: write it with odm lock shop:shop, and commit it\n"


@pytest.mark.parametrize("command", ["lock", "check"])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is damaged: Expecting value"),
        (b'{"format": 1, "tables": {"shop": {', "is damaged: "),
        (b"[" * 100_000, "is damaged: "),
        (b'{"format": 9, "tables": {}}', "was written by a newer odm: it has format 9"),
        (b"SQLite format 3\0\xff\xfe", "it is not text"),
    ],
)
def test_what_is_no_lock_file_is_left_alone(
    command: str, content: bytes, why: str, run: Run, application: Application
) -> None:
    path = application.folder / "odm.lock"
    path.write_bytes(content)
    done = run(command, "shop:shop")
    assert (done.code, done.out) == (1, "")
    assert "odm.lock" in done.line
    assert why in done.line
    assert path.read_bytes() == content


def test_a_path_that_can_not_be_used(run: Run, application: Application) -> None:
    (application.folder / "folder").mkdir()
    for command in ("lock", "check"):
        done = run(command, "shop", "--file", "folder")
        assert done.code == 1
        assert re.search(r"folder cannot be read: .+; choose another path with --file", done.line)
    done = run("lock", "shop", "--file", "missing/odm.lock")
    assert done.code == 1
    assert re.search(r"missing.odm.lock cannot be written: .+; choose another path with --file", done.line)


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is one of Linux")
def test_a_folder_that_can_not_be_written(run: Run) -> None:
    done = run("lock", "shop", "--file", "/sys/odm.lock")  # where root is refused, too
    assert (done.code, done.out) == (1, "")
    assert re.search(r"^odm: /sys/odm.lock cannot be written: .+; choose another path with --file$", done.line)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_what_can_not_be_written_in_full_leaves_the_file_as_it_was(run: Run, application: Application) -> None:
    path = application.folder / "odm.lock"
    path.write_text('{"format": 1, "tables": {}}', encoding="utf-8")
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)); signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    # Python must write no byte code then: cut off, it would stay, and every later import would fail.
    limited = f"import resource, signal, sys; sys.dont_write_bytecode = True; {limit}\n{RUN}"
    assert "odm.lock cannot be written: " in failure(odm(application.folder, "lock", "shop", run=limited))
    assert path.read_text(encoding="utf-8") == '{"format": 1, "tables": {}}'
    assert {file.name for file in application.folder.iterdir()} - {"__pycache__"} == {"odm.lock", "shop.py"}


def test_a_link_to_a_lock_file_stays_one(run: Run, application: Application) -> None:
    (application.folder / "odm.lock").symlink_to("the.lock")
    assert run("lock", "shop").code == 0
    assert (application.folder / "odm.lock").is_symlink()
    assert (application.folder / "the.lock").is_file()


def test_as_a_program(application: Application) -> None:
    folder: Path = application.folder
    done = odm(folder, run=each(["lock", "shop:shop"], ["check", "shop:shop"]))
    assert done.stderr == "exit 0\n" * 2
    assert done.stdout.startswith("table shop written to odm.lock: commit it\ntable shop matches odm.lock")
    text = (folder / "odm.lock").read_bytes()
    succeeded(odm(folder, "lock", "shop:shop", PYTHONHASHSEED="5"))
    assert (folder / "odm.lock").read_bytes() == text
    application.change(EMAIL_MOVED)
    assert "1 change orphans stored data" in failure(odm(folder, "check", "shop:shop", PYTHONIOENCODING="ascii"))
