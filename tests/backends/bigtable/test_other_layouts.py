"""Models that say another layout than that of a filled table: its items are never taken to be gone."""

import uuid
from typing import Any

import pytest

from odm import AccessPattern, AsyncStore, BackendError, Entity, OdmError, PrimaryKey, Store, Table, TableNotFound
from odm.backends.bigtable import Bigtable
from odm.patterns.copy import copy

FORMS: dict[str, dict[str, Any]] = {
    "usual": {},
    "wide": {"layout": "row_per_partition"},
    "with transactions": {"transactions": True},
    "wide with transactions": {"layout": "row_per_partition", "transactions": True},
}


def notes(name: str, form: str) -> tuple[Table, Any]:
    table = Table(name, **FORMS[form])

    class Note(Entity, table=table):
        who: str
        number: str
        text: str

        primary = PrimaryKey("WHO#{who}", "NOTE#{number}")
        by_text = AccessPattern("TEXT#{text}")

    return table, Note


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("project", "instance", endpoint=bigtable_emulator)


@pytest.fixture
def name() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


PAIRS = [(before, after) for before in FORMS for after in FORMS if before != after]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_create_refuses_the_other_layout(before: str, after: str, backend: Bigtable, name: str) -> None:
    table, note = notes(name, before)
    with Store(table, backend) as db:
        db.create()
        db.put(note(who="ann", number="1", text="hello"))
    other, same = notes(name, after)
    with Store(other, backend) as db:
        with pytest.raises(BackendError, match=r"say Table\(.* as before|give the store a prefix"):
            db.create()
        with pytest.raises(OdmError):
            list(db.scan(same))
    with Store(table, backend) as db:
        db.create()
        assert db.one(note, who="ann", number="1").text == "hello"


@pytest.mark.parametrize(
    ("before", "after"), [("usual", "with transactions"), ("with transactions", "usual")], ids=["on", "off"]
)
async def test_turning_transactions_on_or_off(before: str, after: str, backend: Bigtable, name: str) -> None:
    table, note = notes(name, before)
    with Store(table, backend) as db:
        db.create()
        db.put(note(who="ann", number="1", text="hello"))
    other, same = notes(name, after)
    async with AsyncStore(other, backend) as later:
        with pytest.raises(TableNotFound):
            await later.get(same, who="ann", number="1")
        with pytest.raises(BackendError, match=r"does not exist, but .* does.*copy its items with odm copy"):
            await later.create()
        with pytest.raises(TableNotFound):
            await later.get(same, who="ann", number="1")


def test_the_ways_out(backend: Bigtable, name: str, bigtable_emulator: str) -> None:
    table, note = notes(name, "usual")
    beside = Bigtable("project", "instance", endpoint=bigtable_emulator, transactions=True)
    with Store(table, backend) as db, Store(table, beside) as there:
        db.create()
        db.put(note(who="ann", number="1", text="hello"))
        there.create()
        copy(db, there)
    other, same = notes(name, "with transactions")
    with Store(other, backend) as later:
        later.create()  # the table exists now
        assert later.one(same, who="ann", number="1").text == "hello"
    with Store(other, backend, prefix="p") as prefixed:
        prefixed.create()
        assert prefixed.get(same, who="ann", number="1") is None
