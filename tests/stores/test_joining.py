"""Entities that join the table while a procedure, a batch or a transaction is running."""

from odm import Calls, Entity, Gen, PrimaryKey, Store, Table, procedure
from odm.backends.local import Memory


def store() -> tuple[Table, Store]:
    shop = Table("shop")

    class Before(Entity, table=shop):
        name: str

        primary = PrimaryKey("BEFORE#{name}")

    db = Store(shop, Memory())
    db.create()
    assert db.get(Before, name="a") is None
    return shop, db


def joined(shop: Table) -> type[Entity]:
    class Joined(Entity, table=shop):
        name: str

        primary = PrimaryKey("JOINED#{name}")

    return Joined


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
