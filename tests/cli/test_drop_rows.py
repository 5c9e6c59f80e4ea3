"""`odm drop-rows`, on the emulator."""

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odm import Store
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import DeleteFamily, Entry, MutateRow, ReadRows, SetCell
from odm.backends.bigtable.client.native_admin import ModifyFamilies
from odm.backends.bigtable.maintenance.drop_rows import LOOKED_AT
from odm.cli.target import load_target
from tests.backends.bigtable.families import kept
from tests.cli.conftest import Application, Done, Run

FORMS = """
from typing import Annotated

from odm import Cell, Entity, PrimaryKey, Table

wide = Table("wide", layout="row_per_partition")
quotes = Table("quotes", row_style="verbatim")


class Offer(Entity, table=wide):
    name: str
    ask: float

    primary = PrimaryKey("{name}", "I")


class Quote(Entity, table=quotes):
    name: str
    ask: Annotated[float, Cell("MD:ASK", "float64be")]

    primary = PrimaryKey("{name}", "I")
"""


@pytest.fixture
def prefix() -> str:
    return f"{uuid.uuid4().hex[:12]}-"


@pytest.fixture
def drop(run: Run, bigtable_emulator: str, prefix: str) -> Run:
    def run_it(*more: str) -> Done:
        options = ("--project", "project", "--instance", "instance", "--endpoint", bigtable_emulator)
        done: Done = run("drop-rows", "shop:shop", *options, "--prefix", prefix, *more)
        return done

    return run_it


@pytest.fixture
def send(application: Application, bigtable_emulator: str, prefix: str) -> Iterator[Callable[[Any], Any]]:
    """Makes native calls on tables with the customers c1 and c10."""
    backend = Bigtable("project", "instance", endpoint=bigtable_emulator)
    found = load_target("shop:shop")
    customer: Any = found.schema.entities["Customer"].cls
    with Store(found.table, backend, prefix=prefix) as db:
        db.create()
        for name in ("c1", "c10"):
            db.put(customer(customer_id=name, email=f"{name}@example.com"))
    connection = backend.connect(found.schema)
    yield connection.call
    connection.close()


@pytest.fixture
def left(send: Callable[[Any], Any], prefix: str) -> Callable[[str], int]:
    """The number of rows of a table."""
    return lambda table: len(send(ReadRows(f"{prefix}{table}", filter=Newest())).rows)


Left = Callable[[str], int]


def test_rows_with_a_prefix_are_deleted(drop: Run, left: Left, prefix: str) -> None:
    done = drop("--rows", "CUSTOMER#c1#", "--yes")
    rest = "their index entries are removed by odm scrub, when they are an hour old"
    said = f"table {prefix}shop: deleted the rows that begin with 'CUSTOMER#c1#'; {rest}\n"
    assert done == (0, said, "")
    assert (left("shop"), left("shop.by_email")) == (1, 2)
    again = drop("--rows", "CUSTOMER#c1#", "--yes", "--json")
    assert json.loads(again.out) == {"table": f"{prefix}shop", "dropped": False, "foreign": None}


def test_all_rows_are_deleted_with_those_of_the_indexes(drop: Run, left: Left, prefix: str) -> None:
    assert drop("--all", "--yes").out == f"table {prefix}shop: deleted all rows\n"
    assert (left("shop"), left("shop.by_email")) == (0, 0)
    assert drop("--all").out == f"table {prefix}shop: there are no such rows\n"


@pytest.mark.parametrize(("answer", "code", "rows"), [("y\n", 0, 0), ("\n", 1, 2)])
def test_it_asks_first(
    answer: str, code: int, rows: int, drop: Run, left: Left, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.readline", lambda: answer)
    done = drop("--rows", "CUSTOMER#c1")
    asked = f"Delete the rows that begin with 'CUSTOMER#c1' of table {prefix}shop, 2, such as 'CUSTOMER#c1#PROFILE', "
    assert done.err.startswith(f"{asked}with all their cells? [y/N] ")
    assert (done.code, left("shop")) == (code, rows)


@pytest.mark.parametrize(
    "cell", [SetCell("x", b"y", 1000, "MD"), SetCell("_t", b"Ghost", 1000), SetCell("x", b"y", 1000)], ids=str
)
def test_rows_of_other_programs_are_left_alone(
    cell: SetCell, drop: Run, send: Callable[[Any], Any], left: Left, prefix: str
) -> None:
    send(ModifyFamilies(f"{prefix}shop", create=kept({"MD": 1})))
    send(MutateRow(f"{prefix}shop", Entry("CUSTOMER#c1#NOTE", (cell,))))
    done = drop("--rows", "CUSTOMER#c1#", "--yes")
    assert done.code == 1
    assert "row 'CUSTOMER#c1#NOTE' has cells of another program" in done.line
    assert left("shop") == 3


def test_a_family_of_other_programs_may_have_a_cell_of_the_models(
    drop: Run, application: Application, send: Callable[[Any], Any], left: Left, prefix: str
) -> None:
    send(ModifyFamilies(f"{prefix}shop", create=kept({"MD": 1})))
    application.change(("    email: str", '    email: Annotated[str, Cell("MD:MAIL")]'), ("import Literal", "import *"))
    application.change(("import AccessPattern", "import Cell, AccessPattern"))
    send(MutateRow(f"{prefix}shop", Entry("CUSTOMER#c10#PROFILE", (SetCell("MAIL", b"a", 1000, "MD"),))))
    send(MutateRow(f"{prefix}shop", Entry("CUSTOMER#c1#PROFILE", (SetCell("ASK", b"9", 1000, "MD"),))))
    assert "row 'CUSTOMER#c1#PROFILE' has cells of another program" in drop("--rows", "CUSTOMER#c1#", "--yes").line
    assert drop("--rows", "CUSTOMER#c10#", "--yes").code == 0
    assert left("shop") == 1


@pytest.mark.parametrize(
    "cell", [SetCell("x", b"y", 1000, "MD"), SetCell("_t", b"Ghost", 1000), SetCell("x", b"y", 1000)], ids=str
)
def test_rows_behind_the_first_hundred_are_searched_on_the_server(
    cell: SetCell, drop: Run, send: Callable[[Any], Any], left: Left, prefix: str
) -> None:
    tag = SetCell("_t", b"Customer", 1000)
    send(ModifyFamilies(f"{prefix}shop", create=kept({"MD": 1})))
    for number in range(LOOKED_AT + 1):
        send(MutateRow(f"{prefix}shop", Entry(f"CUSTOMER#d{number:03}#PROFILE", (tag,))))
    ghost = (SetCell("_t", b"", 1000), SetCell("~r", b"", 1000))  # see `odm.backends.bigtable.maintenance.scrub`
    send(MutateRow(f"{prefix}shop", Entry("CUSTOMER#dghost#PROFILE", ghost)))
    send(MutateRow(f"{prefix}shop", Entry("CUSTOMER#e#PROFILE", (tag, cell) if cell.family == "MD" else (cell,))))
    done = drop("--rows", "CUSTOMER#", "--yes")
    assert done.code == 1
    assert "row 'CUSTOMER#e#PROFILE' has cells of another program" in done.line
    assert left("shop") == LOOKED_AT + 5
    assert drop("--rows", "CUSTOMER#d", "--yes").code == 0
    assert left("shop") == 3


@pytest.mark.parametrize("cell", [SetCell("x", b"y", 1000, "MD"), SetCell("x", b"y", 1000, "i")], ids=str)
def test_index_tables_are_searched_too(
    cell: SetCell, drop: Run, send: Callable[[Any], Any], left: Left, prefix: str
) -> None:
    send(ModifyFamilies(f"{prefix}shop.by_email", create=kept({"MD": 1})))
    send(MutateRow(f"{prefix}shop.by_email", Entry("NOTE", (cell,))))
    done = drop("--all", "--yes")
    assert (done.code, left("shop"), left("shop.by_email")) == (1, 2, 3)
    assert f"row 'NOTE' of table {prefix}shop.by_email has cells of another program" in done.line


def test_families_of_markers_are_not_of_other_programs(
    drop: Run, application: Application, send: Callable[[Any], Any], left: Left, prefix: str
) -> None:
    field = '    email: str\n    note: Annotated[str, CellVersions(3)] = ""'
    application.change(("    email: str", field), ("import Literal", "import *"))
    application.change(("import AccessPattern", "import CellVersions, AccessPattern"))
    send(ModifyFamilies(f"{prefix}shop", create=kept({"v": 3})))
    send(MutateRow(f"{prefix}shop", Entry("CUSTOMER#c1#PROFILE", (SetCell("note", b"new", 1000, "v"),))))
    assert drop("--rows", "CUSTOMER#c1#", "--yes").code == 0
    assert left("shop") == 1


@pytest.mark.parametrize("table", ["wide", "quotes"])
def test_rows_of_other_forms_are_searched_too(
    table: str, run: Run, application: Application, bigtable_emulator: str, prefix: str
) -> None:
    application.write(FORMS, "forms.py")
    backend = Bigtable("project", "instance", endpoint=bigtable_emulator)
    found = load_target(f"forms:{table}")
    item: Any = next(iter(found.schema.entities.values())).cls
    with Store(found.table, backend, prefix=prefix) as db:
        db.create()
        with db.batch() as batch:
            for number in range(LOOKED_AT + 1):
                batch.put(item(name=f"a{number:03}", ask=1.5))
    options = ("--project", "project", "--instance", "instance", "--endpoint", bigtable_emulator, "--prefix", prefix)
    connection = backend.connect(found.schema)
    connection.call(ModifyFamilies(f"{prefix}{table}", create=kept({"X": 1})))
    connection.call(MutateRow(f"{prefix}{table}", Entry("a100#I", (SetCell("x", b"y", 1000, "X"),))))
    done = run("drop-rows", f"forms:{table}", *options, "--all", "--yes")
    assert (done.code, "row 'a100#I' has cells of another program" in done.line) == (1, True)
    connection.call(MutateRow(f"{prefix}{table}", Entry("a100#I", (DeleteFamily("X"),))))
    assert run("drop-rows", f"forms:{table}", *options, "--all", "--yes").code == 0
    assert not connection.call(ReadRows(f"{prefix}{table}", filter=Newest())).rows
    connection.close()


@pytest.mark.parametrize("options", [(), ("--rows", ""), ("--rows", "A#", "--all")])
def test_a_beginning_is_needed(options: tuple[str, ...], drop: Run, application: Application) -> None:
    done = drop(*options)
    assert (done.code, done.line) == (2, done.err)
    assert "write --rows with the beginning of the row keys" in done.line
