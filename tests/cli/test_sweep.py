"""`odm sweep`, on a file with its blobs in a folder."""

import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from odm import Store
from odm.backends.local import LocalFile
from odm.cli.target import load_target
from odm.stores.blobs import MARKER
from odm.testing.suite.blobs import files
from tests.cli.conftest import Application, Run

TEXTS = """
from typing import Annotated

from odm import Blob, Entity, PrimaryKey, Table

texts = Table("texts")


class Text(Entity, table=texts):
    name: str
    words: Annotated[bytes, Blob(over=10)]

    primary = PrimaryKey("TEXT#{name}")
"""
SWEEP = ("sweep", "shop:texts", "texts.db", "--blobs", "blobs")


@pytest.fixture
def orphan(application: Application) -> Path:
    """A blob that no item refers to, next to one that an item refers to; both are old."""
    application.write(TEXTS)
    table = load_target("shop:texts")
    with Store(table.table, LocalFile("texts.db"), blobs="blobs") as db:
        db.create()
        db.put(table.module.Text(name="a", words=b"many words" * 9))
    path = Path("blobs/texts") / ("0" * 32)
    path.write_bytes(b"words")
    for one in files(path.parent):
        os.utime(one, (0, 0))
    return path


def test_lists_then_removes(run: Run, orphan: Path) -> None:
    found = run(*SWEEP)
    assert found.out == (
        f"orphan texts/{orphan.name}\ntable texts: 1 blob that no item refers to found; to remove them, add --remove\n"
    )
    assert orphan.exists()
    done = run(*SWEEP, "--remove", "--json", "--yes")
    swept = {"orphans": [orphan.name], "removed": 1, "items": 1, "blobs": 2, "bytes": 5}
    assert json.loads(done.out) == {"table": "texts", **swept}
    assert len(files(orphan.parent)) == 1
    assert run(*SWEEP).out == "table texts: 0 blobs that no item refers to found\n"


def test_keeps_what_is_younger_than_the_grace(run: Run, orphan: Path) -> None:
    os.utime(orphan)
    assert run(*SWEEP, "--grace", "1").out == "table texts: 0 blobs that no item refers to found\n"
    refused = run(*SWEEP, "--grace", "0")
    assert refused.code == 2
    assert refused.line == (
        "odm: --grace 0: give 1 hour or more, because a writer uploads a blob before the item that refers to it; "
        "if nobody writes, add --force\n"
    )
    assert run(*SWEEP, "--grace", "-1").code == 2
    assert run(*SWEEP, "--grace", "0", "--force", "--remove", "--yes").code == 0
    assert not orphan.exists()
    assert run(*SWEEP, "--grace", "nan").code == 2


@pytest.mark.parametrize(
    ("answer", "code"), [("y\n", 0), ("no\n", 1), ("", 1), (None, 1)], ids=["yes", "no", "end of input", "no input"]
)
def test_it_asks_before_it_removes(
    answer: str | None, code: int, run: Run, orphan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None if answer is None else io.StringIO(answer))
    done = run(*SWEEP, "--remove")
    question = "Remove 1 of 2 blobs of table texts (5 bytes), which no item refers to? [y/N] "
    refused = "odm: table texts: no blob was removed: the removal was not confirmed; to skip the question, add --yes\n"
    assert (done.code, done.err) == (code, question + refused * code)
    assert orphan.exists() is (code == 1)
    assert ("removed" in done.out) is (code == 0)


def test_it_refuses_to_remove_most_blobs(run: Run, orphan: Path) -> None:
    orphan.with_name("1" * 32).write_bytes(b"lost")
    os.utime(orphan.with_name("1" * 32), (0, 0))
    refused = run(*SWEEP, "--remove", "--yes", "--force")
    assert (refused.code, refused.out) == (1, "")
    assert "would remove 2 of 3 blobs (9 bytes) of the folder, so it removed none" in refused.line
    assert len(files(orphan.parent)) == 3
    done = run(*SWEEP, "--remove", "--yes", "--remove-most")
    assert (done.code, len(files(orphan.parent))) == (0, 1)


def test_an_empty_table_with_blobs_looks_like_a_slip(run: Run, orphan: Path) -> None:
    with Store(load_target("shop:texts").table, LocalFile("texts.db")) as db:
        db.drop()
        db.create()
    refused = run(*SWEEP, "--remove", "--yes", "--force")
    assert refused.code == 1
    assert "would remove 2 of 2 blobs (95 bytes) though the table has no items" in refused.line
    assert len(files(orphan.parent)) == 2


def test_another_database_is_refused(run: Run, orphan: Path) -> None:
    with Store(load_target("shop:texts").table, LocalFile("other.db")) as db:
        db.create()
    for more in ((), ("--remove", "--yes", "--remove-most", "--force")):
        refused = run("sweep", "shop:texts", "other.db", "--blobs", "blobs", *more)
        assert (refused.code, refused.out) == (1, "")
        assert "the folder 'texts' belongs to table 'texts' of" in refused.line
        assert "texts.db', not to table 'texts' of file" in refused.line
        assert f"remove the file {MARKER}" in refused.line
    assert len(files(orphan.parent)) == 2


def test_a_snapshot_is_another_database_and_a_moved_file_is_the_same(run: Run, orphan: Path) -> None:
    assert run("snapshot", "texts.db", "backup.db").code == 0
    swept = ("--blobs", "blobs", "--remove", "--yes")
    assert "belongs to table 'texts'" in run("sweep", "shop:texts", "backup.db", *swept).line
    for name in ("texts.db", "texts.db-wal", "texts.db-shm"):
        if Path(name).exists():
            shutil.move(name, name.replace("texts", "moved"))
    assert run("sweep", "shop:texts", "moved.db", *swept).code == 0
    orphan.write_bytes(b"again")
    os.utime(orphan, (0, 0))
    orphan.with_name(MARKER).unlink()  # the way out that the message names
    assert run("sweep", "shop:texts", "backup.db", *swept).code == 0
    assert "belongs to table 'texts'" in run("sweep", "shop:texts", "moved.db", *swept).line


def test_a_folder_of_an_older_version_has_no_marker(run: Run, orphan: Path) -> None:
    marker = orphan.with_name(MARKER)
    marker.unlink()
    assert run(*SWEEP).code == 0
    assert not marker.exists()  # a listing writes nothing
    assert run(*SWEEP, "--remove", "--yes").code == 0
    assert json.loads(marker.read_text())["parts"]["table"] == "texts"
