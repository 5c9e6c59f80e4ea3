"""`odm schema --bigquery`: the statements, character by character."""

import json
import re
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import example, given

from odm import Cell, Entity, PrimaryKey, Stored, Table
from odm.cli.bigquery import statements
from tests.cli.conftest import Application, Run
from tests.codec.test_emitted import texts

MODELS = """
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated

from odm import TTL, Cell, CellVersions, Columns, Counter, Entity, PrimaryKey, Stored, Sum, Table

media = Table("media")
days = Table("days", row_style="verbatim")
ads = Table("ads")
wide = Table("wide", layout="row_per_partition")
quotes = Table("quotes", row_style="verbatim")


class Video(Entity, table=media):
    video: str
    made: datetime
    seconds: int
    price: Decimal | None = None
    tags: Annotated[set[str], Columns] = set()
    views: Annotated[int, Counter] = 0
    end: Annotated[datetime | None, TTL, Stored("end", epoch="s")] = None

    primary = PrimaryKey("VIDEO#{video}", "INFO")


class Comment(Entity, table=media, family="talk"):
    video: str
    at: datetime
    stars: float = 0.0
    shown: bool = True
    raw: Annotated[bytes, Stored("raw bytes")] = b""

    primary = PrimaryKey("VIDEO#{video}", "COMMENT#{at}")


class Day(Entity, table=days):
    meter: int
    day: Annotated[date, Stored(format="%Y%m%d")]
    used: Annotated[float, Cell("MD:USED", "float64be")]
    at: Annotated[datetime, Stored(epoch="ms"), Cell("MD:AT", "int64be")]
    name: Annotated[str, Cell("MD:NAME", "text")]
    doc: Annotated[dict[str, str], Cell("MD:DOC", "json")]
    raw: Annotated[bytes, Cell("MD:RAW", "bytes")]

    primary = PrimaryKey("{meter:010}", "{day}")


class Host(Entity, table=days):
    host: str
    load: Annotated[float, Cell("MD:LOAD", "float64be")]
    note: str | None = None

    primary = PrimaryKey("HOST:{host}", "load's")


class Ad(Entity, table=ads):
    ad: str
    clicks: Annotated[int, Sum] = 0
    price: Annotated[float, CellVersions(3)] = 0.5

    primary = PrimaryKey("AD#{ad}")


class Note(Entity, table=wide):
    owner: str
    at: datetime

    primary = PrimaryKey("{owner}", "NOTE#{at}")


class Quote(Entity, table=quotes):
    symbol: str
    ask: Annotated[float, Cell("MD:ASK", "float64be")]

    primary = PrimaryKey("{symbol}")
"""

MEDIA = r"""-- BigQuery: replace DATASET. A column is read as d.name.cell.value; the row key as rowkey.
CREATE OR REPLACE EXTERNAL TABLE `DATASET.test-media`
OPTIONS (
  format = 'CLOUD_BIGTABLE',
  uris = ['https://googleapis.com/bigtable/projects/my-project/instances/main/tables/test-media'],
  bigtable_options = r'''{
  "columnFamilies": [
    {
      "familyId": "c",
      "onlyReadLatest": true,
      "columns": [
        {"qualifierString": "views", "type": "INTEGER", "encoding": "BINARY"}
      ]
    },
    {
      "familyId": "d",
      "onlyReadLatest": true,
      "columns": [
        {"qualifierString": "_t", "type": "STRING", "encoding": "TEXT", "fieldName": "f_t"},
        {"qualifierString": "video", "type": "STRING", "encoding": "TEXT"},
        {"qualifierString": "made", "type": "STRING", "encoding": "TEXT"},
        {"qualifierString": "seconds", "type": "INTEGER", "encoding": "TEXT"},
        {"qualifierString": "price", "type": "STRING", "encoding": "TEXT"},
        {"qualifierString": "end", "type": "INTEGER", "encoding": "TEXT"}
      ]
    },
    {
      "familyId": "talk",
      "onlyReadLatest": true,
      "columns": [
        {"qualifierString": "_t", "type": "STRING", "encoding": "TEXT", "fieldName": "f_t"},
        {"qualifierString": "video", "type": "STRING", "encoding": "TEXT"},
        {"qualifierString": "at", "type": "STRING", "encoding": "TEXT"},
        {"qualifierString": "stars", "type": "FLOAT", "encoding": "TEXT"},
        {"qualifierString": "shown", "type": "BOOLEAN", "encoding": "TEXT"},
        {"qualifierString": "raw bytes", "type": "BYTES", "encoding": "BINARY", "fieldName": "f_raw_bytes"}
      ]
    }
  ],
  "ignoreUnspecifiedColumnFamilies": true,
  "readRowkeyAsString": true
}'''
);

-- Bigtable: Video, the query of the logical view test-media-video.
SELECT
  CAST(_key AS STRING) AS _key,
  CAST(`d`['video'] AS STRING) AS `video`,
  CAST(CAST(`d`['made'] AS STRING) AS TIMESTAMP) AS `made`,
  CAST(CAST(`d`['seconds'] AS STRING) AS INT64) AS `seconds`,
  CAST(`d`['price'] AS STRING) AS `price`,
  TO_INT64(`c`['views']) AS `views`,
  TIMESTAMP_SECONDS(CAST(CAST(`d`['end'] AS STRING) AS INT64)) AS `end`
FROM `test-media`
WHERE _key >= b'VIDEO#' AND _key < b'VIDEO$' AND `d`['_t'] = b'Video';

-- Bigtable: Comment, the query of the logical view test-media-comment.
SELECT
  CAST(_key AS STRING) AS _key,
  CAST(`talk`['video'] AS STRING) AS `video`,
  CAST(CAST(`talk`['at'] AS STRING) AS TIMESTAMP) AS `at`,
  CAST(CAST(`talk`['stars'] AS STRING) AS FLOAT64) AS `stars`,
  CAST(CAST(`talk`['shown'] AS STRING) AS BOOL) AS `shown`,
  SUBSTR(`talk`['raw bytes'], 2) AS `raw`
FROM `test-media`
WHERE _key >= b'VIDEO#' AND _key < b'VIDEO$' AND `talk`['_t'] = b'Comment';
"""

DAY = r"""
-- Bigtable: Day, the query of the logical view days-day.
SELECT
  CAST(_key AS STRING) AS _key,
  CAST(REGEXP_EXTRACT(CAST(_key AS STRING), r'^(.{10})#.{8}$') AS INT64) AS `meter`,
  PARSE_DATE('%Y%m%d', REGEXP_EXTRACT(CAST(_key AS STRING), r'^.{10}#(.{8})$')) AS `day`,
  TO_FLOAT64(`MD`['USED']) AS `used`,
  TIMESTAMP_MILLIS(TO_INT64(`MD`['AT'])) AS `at`,
  CAST(`MD`['NAME'] AS STRING) AS `name`,
  CAST(`MD`['DOC'] AS STRING) AS `doc`,
  `MD`['RAW'] AS `raw`
FROM `days`
WHERE REGEXP_CONTAINS(CAST(_key AS STRING), r'^.{10}#.{8}$');

-- Bigtable: Host, the query of the logical view days-host.
SELECT
  CAST(_key AS STRING) AS _key,
  REGEXP_EXTRACT(CAST(_key AS STRING), r'^HOST:([^#]+)#load\x{27}s$') AS `host`,
  TO_FLOAT64(`MD`['LOAD']) AS `load`,
  CAST(`d`['note'] AS STRING) AS `note`
FROM `days`
WHERE _key >= b'HOST:' AND _key < b'HOST;' AND REGEXP_CONTAINS(CAST(_key AS STRING), r'^HOST:[^#]+#load\x{27}s$');
"""

WIDE = """
-- Bigtable: Note has no columns of its own in layout row_per_partition: an item is a cell, and its qualifier is the \
sort key.
SELECT CAST(_key AS STRING) AS _key, `d` FROM `wide`;
"""


@pytest.fixture
def models(application: Application) -> Path:
    application.write(MODELS, "media.py")
    return application.folder


@pytest.mark.usefixtures("models")
def test_statements_of_a_table(run: Run) -> None:
    made = run("schema", "media:media", "bigtable:my-project/main?prefix=test-", "--bigquery")
    assert (made.code, made.err) == (0, "")
    assert made.out == MEDIA


@pytest.mark.usefixtures("models")
def test_statements_of_a_table_that_the_location_describes(run: Run) -> None:
    made = run("schema", "--bigquery", "media:ads", "bigtable:my-project/main?transactions=on")
    assert "/instances/main/tables/ads.tx" in made.out
    made = run("schema", "--bigquery", "media:media", "bigtable:my-project/main?layout=row_per_partition")
    assert made.out.endswith("SELECT CAST(_key AS STRING) AS _key, `talk` FROM `media`;\n")


@pytest.mark.usefixtures("models")
def test_fields_that_stand_in_keys_only_are_read_from_them(run: Run) -> None:
    made = run("schema", "--bigquery", "media:days")
    assert made.out.endswith(DAY)
    assert "projects/PROJECT/instances/INSTANCE/tables/days" in made.out


@pytest.mark.usefixtures("models")
def test_fields_in_families_of_odm_are_read_from_there(run: Run) -> None:
    made = run("schema", "--bigquery", "media:ads").out
    assert (
        "  TO_INT64(`sum`['clicks']) AS `clicks`,\n  CAST(CAST(`v`['price'] AS STRING) AS FLOAT64) AS `price`\n" in made
    )
    assert '{"qualifierString": "clicks", "type": "INTEGER", "encoding": "BINARY"}' in made


@pytest.mark.usefixtures("models")
def test_a_table_of_other_programs_has_no_family_of_odm(run: Run) -> None:
    options = _options(run("schema", "--bigquery", "media:quotes").out)
    assert [family["familyId"] for family in options["columnFamilies"]] == ["MD"]


@pytest.mark.usefixtures("models")
def test_items_in_wide_rows_are_a_map(run: Run) -> None:
    assert run("schema", "--bigquery", "media:wide").out.endswith(WIDE)


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("table", ["media", "days", "wide"])
def test_the_options_are_json(run: Run, table: str) -> None:
    assert _options(run("schema", "--bigquery", f"media:{table}").out)["readRowkeyAsString"] is True


def test_a_part_of_a_row_key_may_be_empty(run: Run) -> None:
    made = run("schema", "--bigquery", "odm.testing.suite.verbatim_rows:logs")
    assert r"r'^([^/]+)/.*$') AS `site`" in made.out
    assert r"r'^[^/]+/(.*)$') AS `path`" in made.out


def _options(statements: str) -> Any:
    found = re.search(r"r'''(.*)'''", statements, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.usefixtures("models")
def test_another_location_is_refused(run: Run) -> None:
    assert "write bigtable:PROJECT/INSTANCE" in run("schema", "--bigquery", "media:media", "shop.db").line


def _statements(qualifier: str, text: str) -> str:
    table = Table("hostile", row_style="verbatim")
    literal = text.replace("{", "<").replace("}", ">")

    class Made(Entity, table=table):
        id: str
        name: Annotated[str, Cell(f"MD:{qualifier}", "text")]
        day: Annotated[date, Stored(format=f"%Y{text.replace('%', '%%')}%m%d"), Cell("MD:day", "text")]

        primary = PrimaryKey(f"{literal}{{id}}")

    class Other(Entity, table=table):
        id: str
        name: Annotated[str, Cell("MD:name", "text")]

        primary = PrimaryKey(f"other{{id}}{literal}#x")

    return statements(table.compile(), "project", "instance")


def _without_literals(sql: str) -> str:
    return re.sub(r"r'''.*?'''|r'[^'\n]*'|b?'(?:[^'\\\n]|\\.)*'|`(?:[^`\\\n]|\\.)*`", "?", sql, flags=re.DOTALL)


@given(texts, texts)
@example("''' ); DROP TABLE x; --", "'); DROP TABLE x; --")
@example("a  b", "{}")
@example("a{ }b", "{0}")
def test_names_and_formats_stay_in_their_literals(qualifier: str, literal: str) -> None:
    made = _statements(qualifier, literal)
    assert _without_literals(made) == _without_literals(_statements("plain", "-"))
    [family] = _options(made)["columnFamilies"]
    assert qualifier in {column["qualifierString"] for column in family["columns"]}


def test_cells_of_all_encodings(tmp_path: Path, run: Run) -> None:
    (tmp_path / "sensors.py").write_text(SENSORS)
    text = run("schema", "--bigquery", "sensors:sensors", "bigtable:my-project/main").out
    assert '{"qualifierString": "rack", "type": "BYTES", "encoding": "BINARY"}' in text
    rack = "TO_INT64(CONCAT(IF(`m`['rack'] < b'\\x80', b'" + r"\x00" * 4 + "', b'" + r"\xff" * 4 + "'), `m`['rack']))"
    for line in (
        f"  {rack} AS `rack`",
        "  `m`['load'] AS `load`",
        "  `m`['live'] = b'\\xff' AS `live`",
        "  TIMESTAMP_MICROS(TO_INT64(`m`['at'])) AS `at`",
        "  TO_INT64(`m`['ns']) AS `ns`",
    ):
        assert line in text.replace(",\n", "\n").splitlines(), line


SENSORS = """
from datetime import datetime
from typing import Annotated

from odm import Cell, Entity, PrimaryKey, Stored, Table

sensors = Table("sensors", row_style="verbatim")


class Sensor(Entity, table=sensors):
    id: str
    rack: Annotated[int, Cell("m:rack", "int32be")]
    load: Annotated[float, Cell("m:load", "float32be")]
    live: Annotated[bool, Cell("m:live", "hbase_bool")]
    at: Annotated[datetime, Stored(epoch="us"), Cell("m:at", "int64be")]
    ns: Annotated[datetime, Stored(epoch="ns"), Cell("m:ns", "int64be")]

    primary = PrimaryKey("S", "{id}")
"""
