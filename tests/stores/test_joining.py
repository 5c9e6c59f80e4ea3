"""Entities that join the table while a store is open, or a procedure, a batch or a transaction is running."""

from odm import Entity, PrimaryKey, Store, Table
from odm.backends.local import Memory
from odm.extend import Calls, Gen, procedure


def store() -> tuple[Table, Store]:
    shop = Table("shop")
    before = joined(shop, "Before")
    db = Store(shop, Memory())
    db.create()
    db.put(before(name="a"))  # type: ignore[call-arg]
    return shop, db


def joined(shop: Table, tag: str = "Joined") -> type[Entity]:
    class Joined(Entity, table=shop, tag=tag):
        __qualname__ = tag
        name: str

        primary = PrimaryKey(f"{tag}#{{name}}")

    return Joined


def test_in_an_open_store() -> None:
    shop, db = store()
    cls = joined(shop)
    db.put(cls(name="a"))  # type: ignore[call-arg]
    assert [type(item).__qualname__ for item in db.scan()] == ["Before", "Joined"]


def test_in_a_procedure() -> None:
    shop, db = store()

    @procedure
    def put(do: Calls) -> Gen[tuple[Entity, Entity | None]]:
        cls = joined(shop)
        stored = yield from do.put(cls(name="a"))  # type: ignore[call-arg]
        return stored, (yield from do.get(cls, name="a"))

    stored, found = db.run(put())
    assert stored == found


def test_in_a_batch() -> None:
    shop, db = store()
    with db.batch() as batch:
        cls = joined(shop)
        batch.put(cls(name="a"))  # type: ignore[call-arg]
        batch.delete(cls, name="b")
    assert db.exists(cls, name="a")


def test_in_a_transaction() -> None:
    shop, db = store()
    with db.transaction() as tx:
        cls = joined(shop)
        tx.put(cls(name="a"))  # type: ignore[call-arg]
        tx.delete(cls, name="b")
    assert db.exists(cls, name="a")
