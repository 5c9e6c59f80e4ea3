"""The lines of docs/model.md that read a compressed value with boto3 alone."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import boto3
import pytest
from moto import mock_aws

from odm import Compressed, Entity, PrimaryKey, Store, Table
from odm.backends.dynamodb import DynamoDB
from odm.codec.types.compressed import zstd
from tests.readme import blocks

table = Table("manuals")
PAGE = Path(__file__).parents[3] / "docs" / "model.md"
LONG = "Turn the screw. " * 100


class Manual(Entity, table=table):
    manual_id: str
    text: Annotated[str, Compressed("gzip")]
    other: Annotated[str, Compressed("zstd")] = ""

    primary = PrimaryKey("MANUAL#{manual_id}", "TEXT")


@pytest.fixture
def db(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "eu-west-1")
    with mock_aws(), Store(table, DynamoDB(boto3.Session(region_name="eu-west-1"))) as store:
        store.create()
        yield store


def test_boto3_reads_what_odm_writes(db: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.version_info < (3, 14):
        monkeypatch.setitem(sys.modules, "compression", type(sys)("compression"))
        monkeypatch.setattr(sys.modules["compression"], "zstd", zstd(), raising=False)
    (shown,) = (block for block in blocks(PAGE) if block.language == "python boto3")
    names: dict[str, Any] = {}
    exec(shown.text, names)
    db.put(Manual(manual_id="long", text=LONG, other=LONG))
    db.put(Manual(manual_id="short", text="Turn"))
    read = names["text_of"]
    assert read("manuals", "MANUAL#long", "TEXT", "text") == read("manuals", "MANUAL#long", "TEXT", "other") == LONG
    assert read("manuals", "MANUAL#short", "TEXT", "text") == "Turn"
