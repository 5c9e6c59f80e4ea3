"""Former values of fields: what the suite of the backends does not show."""

from typing import Annotated, Any

import pytest

from odm import BadValue, CellVersions, Entity, PrimaryKey, Store, Table, Unsupported, set_, upgrade
from odm.backends.local import Memory
from odm.extend import Companion, Effect
from odm.testing import Clock


def test_an_upgrade_keeps_them() -> None:
    backend, clock = Memory(), Clock()

    def notes(version: int) -> tuple[Table, Any]:
        table = Table("notes")

        class Note(Entity, table=table, version=version):
            name: str
            text: Annotated[str, CellVersions(5)]
            length: int = 0
            primary = PrimaryKey("NOTE#{name}")

            if version == 2:

                @upgrade(from_=1)
                @staticmethod
                def measure(item: dict[str, Any]) -> dict[str, Any]:
                    assert set(item) == {"name", "text", "length"}
                    return {"name": item["name"], "text": item["text"], "length": len(item["text"])}

        return table, Note

    (table, note), (newer, new_note) = notes(1), notes(2)
    with Store(table, backend, clock=clock) as db:
        db.create()
        for text in ("a", "ab"):
            db.put(note(name="n", text=text))
    with Store(newer, backend, clock=clock) as db:
        key = new_note.primary(name="n")
        db.update(key, set_(new_note.length, 7))
        assert [one.value for one in db.cell_versions(key, new_note.text)] == ["ab", "a"]
        db.update(key, set_(new_note.text, "abc"))
        assert [one.value for one in db.cell_versions(key, new_note.text)] == ["abc", "ab", "a"]
        assert db.one(key).length == 7


def test_values_before_the_marker_have_no_time() -> None:
    backend, clock = Memory(), Clock()
    plain, marked = Table("notes"), Table("notes")

    class Plain(Entity, table=plain, tag="Note"):
        name: str
        text: str
        primary = PrimaryKey("NOTE#{name}")

    class Note(Entity, table=marked):
        name: str
        text: Annotated[str, CellVersions(2)]
        primary = PrimaryKey("NOTE#{name}")

    with Store(plain, backend) as before, Store(marked, backend, clock=clock) as db:
        before.create()
        before.put(Plain(name="n", text="a"))
        key = Note.primary(name="n")
        assert [(one.value, one.at.year) for one in db.cell_versions(key, Note.text)] == [("a", 1970)]
        db.update(key, set_(Note.text, "b"))
        first, second = db.cell_versions(key, Note.text)
        assert (first.value, first.at, second.value, second.at.year) == ("b", clock.now(), "a", 1970)


def test_an_item_written_with_another_one_cannot_keep_them() -> None:
    table = Table("notes")

    class Log(Entity, table=table):
        name: str
        text: Annotated[str, CellVersions(2)]
        primary = PrimaryKey("LOG#{name}")

    class Logged(Companion):
        def companion_writes(self, tx: Any, effect: Effect[Any]) -> None:
            if effect.new is not None:
                tx.put(Log(name=effect.new.name, text=effect.new.text))

    class Note(Entity, table=table):
        name: str
        text: str
        primary = PrimaryKey("NOTE#{name}")
        logged = Logged()

    with Store(table, Memory()) as db:
        db.create()
        with pytest.raises(Unsupported, match="remove CellVersions from its class"):
            db.put(Note(name="n", text="a"))
        assert list(db.scan()) == []


def test_a_merge_does_not_read_them() -> None:
    table = Table("notes")

    class Note(Entity, table=table):
        name: str
        text: Annotated[str, CellVersions(2)] = ""
        length: int = 0
        primary = PrimaryKey("NOTE#{name}")

    with Store(table, Memory()) as db:
        db.create()
        key = Note.primary(name="n")
        with pytest.raises(BadValue, match=r"Note\.text: it keeps its former values"):
            db.merge(key, set_(Note.text, "a"))
        db.put(Note(name="n", text="a"))
        db.merge(key, set_(Note.length, 1))
        assert [one.value for one in db.cell_versions(key, Note.text)] == ["a"]


def test_a_dry_run_shows_the_read() -> None:
    table = Table("notes")

    class Note(Entity, table=table):
        name: str
        text: Annotated[str, CellVersions(2)]
        primary = PrimaryKey("NOTE#{name}")

    shown = str(Store(table, Memory()).explain(Note(name="n", text="a")))
    assert "one, or two with a read first, a try" in shown
    assert "reads the item first, to keep the former values" in shown
