"""`odm sweep`, on a file with its blobs in a folder."""

import json
import os
from pathlib import Path

import pytest

from odm import Store
from odm.backends.local import LocalFile
from odm.cli.target import load_target
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
    for one in path.parent.iterdir():
        os.utime(one, (0, 0))
    return path


def test_lists_then_removes(run: Run, orphan: Path) -> None:
    found = run(*SWEEP)
    assert found.out == (
        f"orphan texts/{orphan.name}\ntable texts: 1 blob that no item refers to found; to remove them, add --remove\n"
    )
    assert orphan.exists()
    done = run(*SWEEP, "--remove", "--json")
    assert json.loads(done.out) == {"table": "texts", "orphans": [orphan.name], "removed": 1, "items": 1}
    assert len([*orphan.parent.iterdir()]) == 1
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
    assert run(*SWEEP, "--grace", "0", "--force", "--remove").code == 0
    assert not orphan.exists()
