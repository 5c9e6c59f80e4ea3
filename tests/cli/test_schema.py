"""`odm schema`: the key schema for people, in a pipe and in a terminal, and as JSON."""

import json
import os
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Literal
from uuid import UUID

import pytest
from pydantic import Field

from odm import Entity, PrimaryKey, Stored, Table
from odm.cli.samples import example_key
from odm.keys import compile_template
from odm.testing.entities import hashes, indexed, plain
from tests.cli.command_line import ROOT, RUN
from tests.cli.conftest import Application, Run
from tests.schema.lock_models import model

PLAIN = """\
table shop, key attributes pk and sk

Entities
entity    tag
Customer  Customer
Order     Order

Patterns
pattern            index      partition               sort                           example key
Customer.primary   the table  CUSTOMER#{customer_id}  PROFILE                        CUSTOMER#c1 | PROFILE
Customer.by_email  by_email   EMAIL#{email}           Customer                       EMAIL#e1 | Customer
Order.primary      the table  CUSTOMER#{customer_id}  ORDER#{order_id}               CUSTOMER#c1 | ORDER#o1
Order.by_date      by_date    CUSTOMER#{customer_id}  PLACED#{placed_at}#{order_id}  \
CUSTOMER#c1 | PLACED#2026-01-31T12:30:00.000000Z#o1

Indexes
index     kind    patterns
by_email  global  Customer.by_email
by_date   global  Order.by_date

"""


def test_in_a_pipe_it_is_plain_text(run: Run) -> None:
    assert run("schema", "shop:shop") == (0, PLAIN, "")


@pytest.mark.parametrize("columns", ["0", "1", "-3", "many"])
def test_in_a_pipe_the_width_does_not_matter(columns: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert run("schema", "shop:shop") == (0, PLAIN, "")


def test_roles_conditions_and_shared_indexes_are_shown(run: Run, application: Application) -> None:
    application.change(
        ("import AccessPattern, Entity", "import TTL, AccessPattern, Counter, Entity"),
        ("from typing import Literal", "from typing import Annotated, Literal\nfrom odm import field"),
        ("    email: str", "    email: str\n    ends: Annotated[datetime | None, TTL] = None"),
        ('"EMAIL#{email}"', '"EMAIL#{email}", index="gsi1", when=field("email") != "x"'),
        ('#{placed_at}#{order_id}"', '#{placed_at}#{order_id}", index="gsi1"'),
    )
    out = run("schema", "shop").out
    assert "Customer  Customer  ends (TTL)\n" in out
    assert "  email <> 'x'  " in out
    assert "gsi1   global  Customer.by_email, Order.by_date\n" in out


def test_shards_are_shown(run: Run, application: Application) -> None:
    application.change(
        ("import AccessPattern", "import Shards, AccessPattern"),
        ('#{placed_at}#{order_id}"', '#{placed_at}#{order_id}", shards=Shards(16, by="order_id", was=4)'),
        ('"EMAIL#{email}"', '"EMAIL#{email}", shards=Shards(8)'),
    )
    lines = run("schema", "shop").out.splitlines()
    by_email, by_date = (
        next(line.split("  ") for line in lines if name in line) for name in ("r.by_email", "r.by_date")
    )
    assert {"8", "EMAIL#e1#0 | Customer"} <= {cell.strip() for cell in by_email}
    assert {"16 by order_id, 4 before", "CUSTOMER#c1#00 | PLACED#2026-01-31T12:30:00.000000Z#o1"} <= {
        cell.strip() for cell in by_date
    }


def test_versions_and_kept_items_are_shown(run: Run, application: Application) -> None:
    application.change(
        ("import AccessPattern", "import upgrade, AccessPattern"),
        ("class Order(Entity, table=shop)", "class Order(Entity, table=shop, version=2, keep=9)"),
        (
            "    total: Decimal\n",
            "    total: Decimal\n\n    @upgrade(from_=1)\n    @staticmethod\n    def one(i): return i\n",
        ),
    )
    out = run("schema", "shop").out
    assert "entity    tag       version  keep\nCustomer  Customer\nOrder     Order     2        9\n" in out


def test_column_families_are_shown_with_their_rules(run: Run, application: Application) -> None:
    stats = 'family="stats", gc=MaxVersions(5)'
    application.change(
        ("class Customer(Entity, table=shop)", 'class Customer(Entity, table=shop, family="people")'),
        ("    total: Decimal", f"    total: Annotated[Decimal, Stored({stats})]"),
        ("import AccessPattern", "import MaxVersions, Stored, AccessPattern"),
        ("import Literal", "import Annotated, Literal"),
    )
    shown = run("schema", "shop:shop").out.splitlines()
    at = shown.index("Column families on Bigtable")
    assert shown[at + 1 : at + 4] == [
        "family  deletes        holds",
        "people                 Customer",
        "stats   maxversions=5  Order.total",
    ]


def test_empty_parts_of_keys_are_named(run: Run) -> None:
    out = run("schema", "odm.testing.suite.described:checkpoints").out
    assert "Checkpoint: may be empty in keys: namespace, owner, path." in out
    assert "{namespace:empty}#{number}/{path:empty}" in out


def test_json_is_what_the_lock_file_holds(run: Run, application: Application) -> None:
    run("lock", "shop")
    locked = json.loads((application.folder / "odm.lock").read_text())
    assert json.loads(run("schema", "shop", "--json").out) == locked


def test_a_table_without_sort_keys(run: Run, application: Application) -> None:
    application.write(
        "from odm import Entity, PrimaryKey, Table\n\nnotes = Table('notes')\n\n\n"
        "class Note(Entity, table=notes):\n    id: str\n\n    primary = PrimaryKey('{id}')\n",
        "notes.py",
    )
    out = run("schema", "notes").out
    assert out.startswith("table notes, key attributes pk\n")
    assert out.endswith("Note.primary  the table  {id}       i1\n\n")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo terminals")
@pytest.mark.parametrize("columns", [70, 200])
def test_in_a_terminal_it_is_a_table(columns: int, application: Application) -> None:
    import pty

    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", RUN, "schema", "shop:shop"],
        cwd=application.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": str(columns)},
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(ours)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "─" in shown.decode()
    assert "…" not in shown.decode()
    assert columns < 200 or "CUSTOMER#c1 | ORDER#o1" in shown.decode()


@pytest.mark.parametrize("table", [plain, indexed, hashes, model().table])
def test_every_template_has_an_example(table: Table) -> None:
    for entity in table.compile().entities.values():
        for pattern in (entity.primary, *entity.patterns.values()):
            for template in filter(None, (pattern.partition, pattern.sort)):
                assert example_key(template).count("#") == template.text.count("#")


def test_examples_of_all_types() -> None:
    class Thing(Entity):
        text: str
        choice: Literal["open", "shut"]
        small: Annotated[int, Field(ge=0, lt=10)]
        whole: int
        price: Annotated[Decimal, Field(decimal_places=2)]
        share: float
        on: bool
        id: UUID
        raw: bytes
        day: date
        at: datetime

    template = (
        "{text}#{text:<1}#{choice}#{small}#{whole:desc}#{price}#{share}#{on}#{id}#{raw}#{day:%Y%m}#{at:ms}#{at:desc}"
    )
    assert example_key(compile_template(template, Thing.model_fields, owner="Thing")).split("#") == [
        "t1",
        "t",
        "open",
        "9",
        "Y57",
        "d1250",
        "bff8000000000000",
        "1",
        "2f9a3c1e-7b4d-4c8a-9e05-6d1f0b8a7c32",
        "01ab",
        "202601",
        "1769862600000",
        "7973-98-68T87:69:99.999999Z",
    ]


def test_examples_of_keys_as_they_are() -> None:
    days = Table("days", keys=("pk", "sk"), key_style="verbatim", tag=None)

    class Day(Entity, table=days):
        day: date
        at: Annotated[datetime, Stored(format="%Y-%m-%dT%H:%M:%S.%3fZ")]
        end: Annotated[datetime, Stored(epoch="s")]
        id: UUID
        kind: Literal["open", "shut"]
        number: int
        price: Decimal
        share: float
        text: str

        primary = PrimaryKey("{day}_{at}_{end}_{id}_{kind}", "{number:04}_{price}_{share}_{text}")

    made = days.compile().entities["Day"].primary
    assert made.sort is not None
    assert example_key(made.partition) == (
        "2026-01-31_2026-01-31T12:30:00.000Z_1769862600_2f9a3c1e-7b4d-4c8a-9e05-6d1f0b8a7c32_open"
    )
    assert example_key(made.sort) == "0042_42_42_t1"

    readings = Table("readings", keys=("raw", "number"), key_style="verbatim", tag=None)

    class Reading(Entity, table=readings):
        raw: bytes
        number: int

        primary = PrimaryKey("{raw}", "{number}")

    made = readings.compile().entities["Reading"].primary
    assert made.sort is not None
    assert (example_key(made.partition), example_key(made.sort)) == ("01ab", "42")
