"""version=, keep= and @upgrade: what the class statement and the compiler refuse, and what the schema holds."""

from collections.abc import Callable
from typing import Any

import pytest

from odm import Entity, PrimaryKey, SchemaError, Table, upgrade

META: Any = type(Entity)


def same(item: dict[str, Any]) -> dict[str, Any]:
    return item


def compiled(sort: str | None = "{name}", body: dict[str, Any] | None = None, **options: Any) -> Any:
    """The schema of an entity with these declarations."""
    table = Table("evolution")
    namespace: dict[str, Any] = {
        "__annotations__": {"group": str, "name": str},
        "primary": PrimaryKey("G#{group}", sort),
    }
    namespace |= {"__module__": __name__, "__qualname__": "Note", **(body or {})}
    META("Note", (Entity,), namespace, table=table, **options)
    return table.compile().entities["Note"]


def steps(*numbers: int) -> dict[str, Any]:
    """Upgrades from these versions."""
    return {f"from_{n}_{at}": staticmethod(upgrade(from_=n)(lambda item: item)) for at, n in enumerate(numbers)}


FAULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "version 0": (lambda: compiled(version=0), "version=0: give an int"),
    "version is not an int": (lambda: compiled(version="2"), "version='2': give an int"),
    "version is a bool": (lambda: compiled(version=True), "version=True"),
    "no upgrade": (
        lambda: compiled(version=2),
        r"no function upgrades its items from version 1: add @upgrade\(from_=1\)",
    ),
    "a gap": (lambda: compiled(version=4, body=steps(1, 3)), "from version 2"),
    "twice": (lambda: compiled(version=2, body=steps(1, 1)), "from_1_0 and Note.from_1_1 both upgrade from version 1"),
    "from the present": (lambda: compiled(version=2, body=steps(1, 2)), "version=3"),
    "without version": (lambda: compiled(body=steps(1)), "the class is version 1"),
    "two arguments": (
        lambda: compiled(version=2, body={"step": upgrade(from_=1)(lambda self, item: item)}),
        "Note.step: .* over @staticmethod",
    ),
    "keep 0": (lambda: compiled(keep=0), "keep=0: give the number"),
    "keep a float": (lambda: compiled(keep=1.5), "keep=1.5"),
    "keep a bool": (lambda: compiled(keep=True), "keep=True"),
    "keep without sort": (lambda: compiled(sort=None, keep=5), "sort template"),
    "keep with a literal sort": (lambda: compiled(sort="NOTE", keep=5), "sort template"),
    "keep with a sort of the partition": (lambda: compiled(sort="NOTE#{group}", keep=5), "sort template"),
    "from_ 0": (lambda: upgrade(from_=0), "from_=0"),
    "from_ of another type": (lambda: upgrade(from_=True), "from_=True"),
}


@pytest.mark.parametrize(("declare", "says"), FAULTS.values(), ids=FAULTS)
def test_is_refused(declare: Callable[[], Any], says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        declare()


@pytest.mark.parametrize("option", ["version", "keep"])
def test_goes_with_a_table(option: str) -> None:
    with pytest.raises(SchemaError, match=f"{option}=2 needs table="):
        META("Base", (Entity,), {"__module__": __name__}, **{option: 2})


def test_the_schema_tells() -> None:
    plain = compiled()
    assert (plain.version, plain.keep) == (1, None)
    assert "_v" not in plain.codec.encode(plain.cls(group="g", name="n"))
    full = compiled(version=3, keep=7, body=steps(2, 1))
    assert (full.version, full.keep) == (3, 7)
    assert full.codec.encode(full.cls(group="g", name="n")) == {"group": "g", "name": "n", "_t": "Note", "_v": 3}


def test_upgrades_can_be_called_and_inherited() -> None:
    table = Table("inherited")

    class Base(Entity):
        name: str
        size: int = 0

        @upgrade(from_=1)
        @staticmethod
        def grow(item: dict[str, Any]) -> dict[str, Any]:
            return {**item, "size": 1}

    class Note(Base, table=table, version=3):
        primary = PrimaryKey("NOTE#{name}")

        @upgrade(from_=2)
        @classmethod
        def name_it(cls, item: dict[str, Any]) -> dict[str, Any]:
            return {**item, "name": f"{cls.__name__} {item['name']}"}

    class Memo(Base, table=table, version=2):
        primary = PrimaryKey("MEMO#{name}")

        @upgrade(from_=1)
        @staticmethod
        def grow(item: dict[str, Any]) -> dict[str, Any]:
            return {**item, "size": 2}

    codecs = {name: entity.codec for name, entity in table.compile().entities.items()}
    assert codecs["Note"].decode({"name": "n", "_t": "Note"}) == Note(name="Note n", size=1)
    assert codecs["Note"].decode({"name": "n", "_t": "Note", "_v": 2}) == Note(name="Note n")
    assert codecs["Memo"].decode({"name": "n", "_t": "Memo"}) == Memo(name="n", size=2)
    assert Note.grow({"name": "n"}) == {"name": "n", "size": 1}


def test_a_plain_function_will_do() -> None:
    entity = compiled(version=2, body={"step": upgrade(from_=1)(same)})
    assert entity.codec.decode({"group": "g", "name": "n", "_t": "Note"}) == entity.cls(group="g", name="n")
