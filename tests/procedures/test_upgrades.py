"""The argument of an upgrade, and updates of older items that fail."""

from typing import Any

import pytest

from odm import Entity, ItemInvalid, ItemNotFound, ItemTooLarge, PrimaryKey, Store, Table, set_, upgrade
from odm.backends.local import Memory
from tests.shop import Note, notes

second = Table("notes")
given: list[dict[str, Any]] = []


class NoteV2(Entity, table=second, tag="Note", version=2):
    note_id: str
    parts: list[str] = []
    text: str = ""
    size: int = 0

    primary = PrimaryKey("NOTE#{note_id}")

    @upgrade(from_=1)
    @staticmethod
    def join(item: dict[str, Any]) -> dict[str, Any]:
        given.append({name: list(value) if name == "parts" else value for name, value in item.items()})
        item["parts"].append("end")
        return {**item, "text": "".join(item["parts"]) * 2}


@pytest.fixture
def stores() -> tuple[Store, Store]:
    backend = Memory()
    old, new = Store(notes, backend), Store(second, backend)
    old.create()
    return old, new


def test_an_upgrade_is_given_a_copy_of_the_attributes_alone(stores: tuple[Store, Store]) -> None:
    old, new = stores
    note = old.put(Note(note_id="n", parts=["a"]))
    given.clear()
    assert new.one(NoteV2, note_id="n") == NoteV2(note_id="n", parts=["a", "end"], text="aendaend")
    assert given == [{"note_id": "n", "text": "", "parts": ["a"]}]
    assert old.one(Note, note_id="n") == note


def test_an_upgrade_may_change_its_argument_in_place(stores: tuple[Store, Store]) -> None:
    old, new = stores
    old.put(Note(note_id="n", parts=["a"]))
    updated = new.update(NoteV2.primary(note_id="n"), set_(NoteV2.size, 1), returning="new")
    assert updated == NoteV2(note_id="n", parts=["a", "end"], text="aendaend", size=1)


def test_an_item_that_is_skipped_is_not_updated() -> None:
    others = Table("notes")

    class Other(Entity, table=others):
        note_id: str

        primary = PrimaryKey("NOTE#{note_id}")

    backend = Memory()
    old, new = Store(others, backend), Store(second, backend, on_unknown="skip")
    old.create()
    other = old.put(Other(note_id="n"))
    key = NoteV2.primary(note_id="n")
    with pytest.raises(ItemNotFound):
        new.update(key, set_(NoteV2.size, 1))
    with pytest.raises(ItemInvalid, match="'Other'"):
        new.update(key, set_(NoteV2.size, 1), upsert=True)
    assert old.one(Other, note_id="n") == other


def test_an_update_that_would_make_the_upgraded_item_too_large_changes_nothing(stores: tuple[Store, Store]) -> None:
    old, new = stores
    note = old.put(Note(note_id="n", parts=["x" * 150_000]))
    with pytest.raises(ItemTooLarge, match="409600 are the most"):
        new.update(NoteV2.primary(note_id="n"), set_(NoteV2.size, 1))
    assert old.one(Note, note_id="n") == note
