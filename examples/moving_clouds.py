"""Moving clouds: a table is copied to another backend unchanged, and all queries return the same results there.

`odm.patterns.copy` reads parts concurrently and stores its progress, so a copy continues after a stop. `odm copy` does
the same on the command line.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from odm import AccessPattern, Backend, BackendError, Counter, Entity, PrimaryKey, Revision, Shards, Store, Table
from odm.backends.local import Faults, LocalFile, Memory
from odm.patterns.copy import copy
from odm.patterns.verify import verify

shop = Table("moving-clouds")


class Product(Entity, table=shop):
    """Has a revision and a counter, which a copy must not increment, and a sharded index."""

    product_id: str
    name: str
    seen: Annotated[int, Counter] = 0
    revision: Annotated[int, Revision] = 0
    on_sale_since: datetime | None = None

    primary = PrimaryKey("PRODUCT#{product_id}")
    on_sale = AccessPattern("SALE", "{on_sale_since}#{product_id}", shards=Shards(4, by="product_id"))


def product(number: int) -> Product:
    """A product; one of ten is on sale."""
    since = datetime(2026, 5, 1 + number % 28, tzinfo=UTC) if number % 10 == 0 else None
    return Product(product_id=f"p{number:03}", name=f'"Ünï" #{number}', seen=number, on_sale_since=since)


def answers_of(db: Store) -> list[str]:
    """The queries of the shop."""
    sale = [one.product_id for one in db.query(Product.on_sale().limit(3))]
    one = db.one(Product, product_id="p007")
    return [*sale, one.name, f"seen {one.seen}", f"revision {one.revision}"]


def main(backend: Backend) -> dict[str, list[str]]:
    """Copy a shop to the backend, with a failure on the way, and back."""
    faults = Faults()
    home, back = Memory(faults=faults), Memory()
    with Store(shop, home) as old, Store(shop, backend) as new, Store(shop, back) as returned:
        for db in (old, new, returned):
            db.create()
        for gone in new.scan(Product):  # of an earlier run
            new.delete(gone)
        for number in range(200):
            old.insert(product(number))

        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder, "copy.state")
            faults.fail("scan", after=5)  # the connection breaks
            try:
                copy(old, new, size=20, state=state)
            except BackendError:
                assert len(list(new.scan(Product))) < 200
            done = copy(old, new, size=20, state=state)  # goes on where it was
        assert done.items == 200
        assert done.verified is not None
        assert done.verified.same  # by count and checksum of each partition

        assert answers_of(new) == answers_of(old)
        assert copy(new, returned).verified == verify(old, returned)
        moved = new.put(new.one(Product, product_id="p007"))  # the other cloud has taken over
        assert moved.revision == 2
        return {
            "there": answers_of(old),
            "home again": answers_of(returned),
            "not the same any more": [str(one) for one in verify(old, new).differences],
        }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for what, answers in main(LocalFile(Path(folder, "shop.db"))).items():
            print(f"{what}: {', '.join(answers)}")
