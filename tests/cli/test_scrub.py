"""`odm scrub`, on the emulator."""

import io
import json
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from odm import Store
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import ENTRIES, Entry, MutateRow, ReadRows, SetCell
from odm.backends.bigtable.client.native_admin import CreateTable, DeleteTable
from odm.backends.bigtable.maintenance import scrub as scrubs
from odm.cli.target import load_target
from tests.backends.bigtable.families import kept
from tests.cli.conftest import Application, Done, Run

OLD = 1_000_000
"""A timestamp of 1970."""


@pytest.fixture
def prefix() -> str:
    return f"{uuid.uuid4().hex[:12]}-"


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("project", "instance", endpoint=bigtable_emulator)


@pytest.fixture
def look(run: Run, bigtable_emulator: str, prefix: str) -> Run:
    def run_it(*more: str) -> Done:
        options = ("--project", "project", "--instance", "instance", "--endpoint", bigtable_emulator)
        done: Done = run("scrub", "shop:shop", *options, "--prefix", prefix, *more)
        return done

    return run_it


@pytest.fixture
def scrub(look: Run) -> Run:
    """Runs it without questions."""
    return lambda *more: look("--yes", *more)


@pytest.fixture
def send(application: Application, backend: Bigtable, prefix: str) -> Iterator[Callable[[Any], Any]]:
    """Makes native calls on tables with one customer and a column that nobody lists."""
    found = load_target("shop:shop")
    customer: Any = found.schema.entities["Customer"].cls
    with Store(found.table, backend, prefix=prefix) as db:
        db.create()
        db.put(customer(customer_id="c1", email="c1@example.com"))
    connection = backend.connect(found.schema)
    row = "EMAIL#gone@example.com##Customer##CUSTOMER#c1##PROFILE"
    connection.call(
        MutateRow(f"{prefix}shop.by_email", Entry(row, (SetCell("gone", b"CUSTOMER#c1#PROFILE", OLD, ENTRIES),)))
    )
    yield connection.call
    connection.close()


def test_it_says_what_it_has_removed(scrub: Run, send: Callable[[Any], Any], prefix: str) -> None:
    done = scrub()
    assert (done.code, done.err) == (0, "")
    removed = "removed: 1 index column, 0 ghosts, 0 expired items"
    assert done.out == f"table {prefix}shop: 1 row read; {removed}; repaired: 0 index entries\n"
    rows = send(ReadRows(f"{prefix}shop.by_email", filter=Newest())).rows
    assert [row.text for row in rows] == ["EMAIL#c1@example.com##Customer##CUSTOMER#c1##PROFILE"]


def test_json(scrub: Run, send: Callable[[Any], Any], prefix: str) -> None:
    done = scrub("--json", "--expired", "--rate", "1000")
    assert json.loads(done.out) == {
        "table": f"{prefix}shop",
        "rows": 1,
        "columns": 1,
        "ghosts": 0,
        "expired": 0,
        "repaired": 0,
        "locks": 0,
        "records": 0,
    }


def test_where_it_stopped_it_says_how_to_go_on(
    scrub: Run, send: Callable[[Any], Any], prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(scrubs._IndexScrub, "scrub", interrupted)
        done = scrub("--remove-most")  # which does not count first
    place = f"{prefix}shop.by_email:"
    assert done.code == 130
    assert done.err == (
        "... 0 rows read; removed: 0 index columns, 0 ghosts, 0 expired items; repaired: 0 index entries; "
        f"to continue, add --after {place}\nodm: interrupted\n"
    )
    assert "1 index column," in scrub("--after", place).out


def test_a_place_of_another_table(scrub: Run, send: Callable[[Any], Any]) -> None:
    assert "pass the `following` of an earlier scrub" in scrub("--after", "other:").line


def test_options_that_cannot_be_used(scrub: Run) -> None:  # no table: nothing is sent
    for option, value in (("--rate", "0"), ("--rate", "nan"), ("--after", "other:")):
        done = scrub(option, value)
        assert done.code == 2
        assert f"{option} {value}" in done.line


def test_project_and_instance_are_needed(run: Run) -> None:
    done = run("scrub", "shop:shop")
    assert done.code == 2
    assert "Missing option '--project'" in done.line


def test_a_table_that_is_not_there(scrub: Run) -> None:
    assert "call store.create()" in scrub().line


def test_lost_entries_are_written_again(scrub: Run, send: Callable[[Any], Any], prefix: str) -> None:
    send(DeleteTable(f"{prefix}shop.by_email"))
    send(CreateTable(f"{prefix}shop.by_email", kept({"i": 1})))
    done = scrub("--repair")
    assert done.out.endswith("0 expired items; repaired: 1 index entry\n")
    rows = send(ReadRows(f"{prefix}shop.by_email", filter=Newest())).rows
    assert [row.text for row in rows] == ["EMAIL#c1@example.com##Customer##CUSTOMER#c1##PROFILE"]
    assert json.loads(scrub("--repair", "--json").out)["repaired"] == 0


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("", 1)])
def test_it_asks_how_much_it_may_remove(
    answer: str, code: int, look: Run, send: Callable[[Any], Any], prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    done = look("--expired")
    assert done.code == code
    assert done.err.startswith(f"Remove 1 of 2 index columns from table {prefix}shop? [y/N] ")
    left = len(send(ReadRows(f"{prefix}shop.by_email", filter=Newest())).rows)
    assert (left, "not confirmed; to skip the question, add --yes" in done.err) == (1 + code, code == 1)
    monkeypatch.setattr(sys, "stdin", None)
    assert look().code == code  # nothing is left, or nobody answers


def test_it_refuses_to_remove_most(scrub: Run, send: Callable[[Any], Any], prefix: str) -> None:
    for name in ("other", "third"):
        row = f"EMAIL#{name}@example.com##Customer##CUSTOMER#c1##PROFILE"
        claim = Entry(row, (SetCell("gone", b"CUSTOMER#c1#PROFILE", OLD, ENTRIES),))
        send(MutateRow(f"{prefix}shop.by_email", claim))
    refused = scrub()
    assert (refused.code, refused.out) == (1, "")
    assert "a scrub would remove 3 of 4 index columns: check that these are the models and the prefix" in refused.line
    assert len(send(ReadRows(f"{prefix}shop.by_email", filter=Newest())).rows) == 4
    assert "removed: 3 index columns," in scrub("--remove-most").out


def test_it_refuses_to_remove_most_items_as_expired(
    scrub: Run, application: Application, backend: Bigtable, prefix: str
) -> None:
    application.change(
        ("    email: str", "    email: str\n    until: Annotated[datetime | None, TTL] = None"),
        ("from typing import Literal", "from typing import Annotated, Literal"),
        ("import AccessPattern", "import TTL, AccessPattern"),
    )
    found = load_target("shop:shop")
    customer: Any = found.schema.entities["Customer"].cls
    with Store(found.table, backend, prefix=prefix) as db:
        db.create()
        for number in range(3):
            until = datetime(2020 if number else 2090, 1, 1, tzinfo=UTC)
            db.put(customer(customer_id=f"c{number}", email=f"{number}@example.com", until=until))
    refused = scrub("--expired")
    assert refused.code == 1
    assert "a scrub would remove 2 of 3 items, which are expired" in refused.line
    assert "2 expired items" in scrub("--expired", "--remove-most").out
