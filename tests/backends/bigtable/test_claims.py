"""Claims of unique values on Bigtable: an item is not written if its claim is older than a quarter of the lease."""

from collections.abc import Iterator
from itertools import count

import pytest

from odm import Entity, PrimaryKey, Store, Table
from odm.backends.bigtable import Bigtable
from odm.patterns.claims import LEASE
from odm.patterns.unique import Unique
from odm.results import RequestInfo
from odm.testing.clock import Clock

table = Table("people", row_key_join="##")
_numbers = count(1)


class Person(Entity, table=table):
    name: str
    email: str | None = None

    primary = PrimaryKey("PERSON#{name}")
    unique_email = Unique("email")


class People:
    """A store whose clock advances when the first claim has been written."""

    def __init__(self, endpoint: str) -> None:
        self.clock, self.late = Clock(), 0.0
        self.written: list[str] = []
        backend, prefix = Bigtable("project", "instance", endpoint=endpoint), f"claims{next(_numbers)}-"
        self.store = Store(table, backend, prefix=prefix, clock=self.clock, on_request=self._take)

    def _take(self, info: RequestInfo) -> None:
        command, _, row_key, *_ = f"{info.native} - -".split(maxsplit=3)
        if command == "check-and-mutate":
            self.written.append("person" if "PERSON" in row_key else "claim")
            self.clock.advance(self.late if self.written == ["claim"] else 0)


@pytest.fixture
def people(bigtable_emulator: str) -> Iterator[People]:
    people = People(bigtable_emulator)
    people.store.create()
    yield people
    people.store.drop()
    people.store.close()


@pytest.mark.parametrize(
    ("late", "written"),
    [
        (LEASE.total_seconds() / 4, ["claim", "person"]),
        (LEASE.total_seconds() / 4 + 1, ["claim", "claim", "claim", "person"]),  # claim, free, claim again
    ],
)
def test_a_claim_is_committed_within_a_quarter_of_the_lease(people: People, late: float, written: list[str]) -> None:
    people.late = late
    people.store.insert(Person(name="ann", email="ann@x"))
    assert people.written == written
    assert people.store.get(Person, name="ann") == Person(name="ann", email="ann@x")
