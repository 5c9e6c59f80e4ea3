"""Unique values: every way to write an item claims them, and frees those that it no longer has."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

import pytest
from pydantic import field_validator

from odm import (
    BadValue,
    Conflict,
    Entity,
    ItemExists,
    ItemNotFound,
    OdmError,
    PrimaryKey,
    Store,
    Table,
    TransactionFailed,
    remove,
    set_,
)
from odm.patterns.unique import Unique
from odm.testing.capabilities import Capabilities, needs
from odm.testing.clock import Clock
from odm.testing.stores import Stores
from odm.testing.suite.ways import Way, each_way

members = Table("members")


class Member(Entity, table=members):
    """Has a unique e-mail address; its case does not matter."""

    member_id: str
    email: str | None = None
    name: str = ""

    primary = PrimaryKey("MEMBER#{member_id}")
    unique_email = Unique("email")

    @field_validator("email")
    @classmethod
    def _lower(cls, value: str | None) -> str | None:
        return None if value is None else value.lower()


class Team(Entity, table=members):
    """Has two unique values, one of them made of two fields."""

    tenant: int
    team_id: str
    name: str
    founded: date | None = None

    primary = PrimaryKey("TENANT#{tenant}", "TEAM#{team_id}")
    unique_name = Unique("tenant", "name")
    unique_day = Unique("founded")


ANN = Member(member_id="ann", email="a@x")
KEY = Member.primary(member_id="ann")
MEMBERS = {name: Member(member_id=name, email="a@x") for name in ("ann", "bob")}


@pytest.fixture
def clock() -> Clock:
    """The clock of the stores."""
    return Clock()


@pytest.fixture
def joined(stores: Stores, clock: Clock) -> Store:
    """A store of members."""
    return stores.open(members, clock=clock)


def claims(db: Store) -> dict[str, str]:
    """The member that has claimed each address."""
    claim: Any = Member.unique_email.claim(email="a@x").entity
    return {member_claim.email: member_claim.member_id for member_claim in db.scan(claim)}


def check(db: Store) -> None:
    """Addresses are unique, each has its claim, and nothing else is claimed."""
    held = {member.email: member.member_id for member in db.scan(Member) if member.email is not None}
    assert len(held) == len([member for member in db.scan(Member) if member.email is not None])
    assert claims(db) == held
    for email, member_id in held.items():
        assert db.one(Member.unique_email(email=email)).member_id == member_id


def calls(db: Store) -> list[tuple[Callable[[], object], tuple[int, int], int, int]]:
    """Calls, each with its read and write units, and its requests with and without transactions."""
    return [
        (lambda: db.insert(ANN), (0, 4), 1, 2),
        (lambda: db.put(Member(member_id="bob", email="b@x")), (1, 4), 2, 3),
        (lambda: db.put(Member(member_id="ann", email="a@x", name="n")), (1, 1), 2, 2),
        (lambda: db.put(Member(member_id="ann", email="c@x")), (1, 6), 2, 4),
        (lambda: db.update(KEY, set_(Member.email, "a@x")), (1, 6), 2, 4),
        (lambda: db.update(KEY, set_(Member.name, "m")), (0, 1), 1, 1),
        (lambda: db.get(Member.unique_email(email="a@x")), (2, 0), 2, 2),
        (lambda: db.delete(KEY), (1, 4), 2, 3),
    ]


@needs("conditions", "updates")
class TestUnique:
    @each_way
    def test_is_claimed_however_it_is_written(self, joined: Store, way: Way) -> None:
        writes: list[Callable[[str], object]] = [
            lambda email: way(joined).put(Member(member_id="bob", email=email)),
            lambda email: way(joined).insert(Member(member_id=f"new {email}", email=email)),
            lambda email: way(joined).update(KEY, set_(Member.email, email)),
            lambda email: way(joined).update(Member.primary(member_id="u"), set_(Member.email, email), upsert=True),
        ]
        joined.put(Member(member_id="ann"))
        joined.put(Member(member_id="zoe", email="Zoe@x"))
        for number, write in enumerate(writes):
            with pytest.raises(ItemExists, match=r"Member\.unique_email: .*email='zoe@x', .*member_id='zoe'"):
                write("zoe@x")
            check(joined)
            write(f"{number}@x")
            check(joined)
        assert sorted(claims(joined)) == ["0@x", "1@x", "2@x", "3@x", "zoe@x"]

    @each_way
    def test_is_free_when_it_is_changed_or_deleted(self, joined: Store, way: Way) -> None:
        frees: list[Callable[[], object]] = [
            lambda: way(joined).put(Member(member_id="ann", email="b@x")),
            lambda: way(joined).put(Member(member_id="ann")),
            lambda: way(joined).update(KEY, set_(Member.email, "b@x")),
            lambda: way(joined).update(KEY, remove(Member.email)),
            lambda: way(joined).delete(KEY),
            lambda: joined.delete_all(KEY),
        ]
        for free in frees:
            joined.put(ANN)
            free()
            check(joined)
            joined.insert(Member(member_id="bob", email="a@x"))
            check(joined)
            joined.delete(Member, member_id="bob")
        assert claims(joined) == {}

    def test_counts_as_it_is_read_where_it_was_assigned(self, joined: Store) -> None:
        member = Member(member_id="m9")
        member.email = "New@X.com"  # which pydantic validates only where it is read
        joined.put(member)
        with pytest.raises(ItemExists):
            joined.insert(Member(member_id="m8", email="new@x.com"))
        assert joined.get(Member.unique_email(email="NEW@x.com")) == Member(member_id="m9", email="new@x.com")
        joined.delete(member)
        joined.insert(Member(member_id="m8", email="new@x.com"))
        check(joined)

    def test_stays_when_nothing_is_written(self, joined: Store) -> None:
        joined.put(ANN)
        refused: list[Callable[[], object]] = [
            lambda: joined.insert(Member(member_id="ann", email="b@x")),
            lambda: joined.put(Member(member_id="ann", email="b@x"), when=Member.name == "n"),
            lambda: joined.update(KEY, set_(Member.email, "b@x"), when=Member.name == "n"),
            lambda: joined.update(Member.primary(member_id="bob"), set_(Member.email, "b@x")),
            lambda: joined.delete(KEY, when=Member.name == "n"),
            lambda: joined.put(Member(member_id="ann", email="b" * 3000)),
            lambda: joined.put(Member(member_id="ann", email="b@x", name="n" * 500_000)),
        ]
        for write in refused:
            with pytest.raises(OdmError):
                write()
            check(joined)
        assert claims(joined) == {"a@x": "ann"}

    def test_is_found_by_its_value(self, joined: Store) -> None:
        assert joined.get(Member.unique_email(email="a@x")) is None
        joined.put(ANN)
        assert joined.get(Member.unique_email(email="A@X")) == ANN
        assert joined.one(Member.unique_email.claim(email="A@X")).member_id == "ann"
        with pytest.raises(ItemNotFound, match=r"Member\.unique_email\(email='b@x'\)"):
            joined.one(Member.unique_email(email="b@x"))
        for wrong in ({}, {"mail": "a@x"}, {"email": "a@x", "name": ""}, {"email": 5}):
            with pytest.raises(BadValue, match="email"):
                joined.get(Member.unique_email(**wrong))

    def test_of_several_fields_counts_together(self, joined: Store) -> None:
        day = date(2026, 1, 2)
        red = Team(tenant=1, team_id="r", name="red", founded=day)
        joined.insert(red)
        joined.insert(Team(tenant=2, team_id="r", name="red"))
        for team in (Team(tenant=1, team_id="x", name="red"), Team(tenant=3, team_id="x", name="x", founded=day)):
            with pytest.raises(ItemExists, match=r"which Team.*already has"):
                joined.insert(team)
        assert joined.get(Team.unique_name(tenant=1, name="red")) == red
        assert joined.get(Team.unique_day(founded=day)) == red
        joined.insert(Team(tenant=3, team_id="x", name="x"))
        assert joined.delete(red)
        joined.insert(Team(tenant=1, team_id="x", name="red", founded=day))
        assert len([item for item in joined.scan() if not isinstance(item, Team)]) == 4

    def test_of_items_from_before_it_was_declared_is_claimed_when_they_are_put(
        self, joined: Store, stores: Stores
    ) -> None:
        stores.rival_puts(ANN)  # writes only the item, no claim
        joined.put(Member(member_id="other"))
        assert claims(joined) == {}
        joined.update(KEY, set_(Member.name, "n"))
        assert claims(joined) == {}
        joined.put(ANN)
        check(joined)
        assert claims(joined) == {"a@x": "ann"}

    def test_that_has_no_item(self, joined: Store, stores: Stores, capabilities: Capabilities) -> None:
        """A claim without an item: with transactions it stays; otherwise it has timed out, so a write takes it over."""
        claim: Any = Member.unique_email.claim(email="a@x").entity
        stores.rival_puts(claim(email="a@x", member_id="bob", claim_ids={"1"}, claimed_at="2026-01-01T00:00Z"))
        if capabilities.transactions is True:
            with pytest.raises(ItemExists, match="member_id='bob'"):
                joined.put(ANN)
            assert not joined.exists(KEY)
            assert joined.get(Member.unique_email(email="a@x")) is None
            assert joined.delete(Member.unique_email.claim(email="a@x"))
        joined.put(ANN)
        check(joined)
        joined.delete(Member.unique_email.claim(email="a@x"))
        assert joined.delete(KEY)
        check(joined)

    def test_that_its_own_member_left_is_used_again(self, joined: Store, stores: Stores) -> None:
        joined.put(ANN)
        stores.rival_deletes(ANN)
        joined.put(Member(member_id="other"))
        joined.insert(ANN)
        check(joined)

    def test_takes_so_many_requests(self, joined: Store, stores: Stores, capabilities: Capabilities) -> None:
        for call, _, together, apart in calls(joined):
            stores.forget()
            call()
            assert len(stores.requests) == (together if capabilities.transactions is True else apart)

    def test_of_a_stopped_program_can_be_claimed_again(self, joined: Store, stores: Stores, clock: Clock) -> None:
        """Stopped between any two requests: addresses stay unique, and a program that retries succeeds."""
        works: list[Callable[[], object]] = [
            lambda: joined.put(Member(member_id="ann", email="new@x")),
            lambda: joined.delete(KEY),
        ]
        for work in works:
            for after in range(8):
                joined.put(ANN)
                stopped = stores.stopped(work, after=after)
                bob = partial(joined.insert, Member(member_id="bob", email="a@x"))
                if stopped:
                    with pytest.raises((ItemExists, Conflict)):
                        bob()
                    work()
                clock.advance(3601)
                bob()
                with pytest.raises(ItemExists):
                    joined.update(KEY, set_(Member.email, "a@x"), upsert=True)
                assert claims(joined)["a@x"] == "bob"
                joined.delete(KEY)
                joined.delete(Member, member_id="bob")
                if not stopped:
                    break
            else:
                pytest.fail("the write takes more requests than this test expects")


@needs("transactions", "updates")
class TestUniqueTransactions:
    def test_costs_what_it_says(self, joined: Store) -> None:
        with joined.meter() as meter, joined.transaction() as tx:
            tx.insert(Member(member_id="zoe", email="z@x"))
            tx.put(Member(member_id="dora"))
        assert (meter.read_units, meter.write_units) == (1, 6)
        for call, units, _, _ in calls(joined):
            with joined.meter() as meter:
                call()
            assert (meter.read_units, meter.write_units) == units

    def test_that_is_taken_refuses_all(self, joined: Store) -> None:
        joined.put(ANN)

        def both() -> None:
            with joined.transaction() as tx:
                tx.put(Member(member_id="cleo", email="c@x"))
                tx.insert(Member(member_id="bob", email="a@x"))

        with pytest.raises(TransactionFailed) as failed:
            both()
        assert [type(reason) for reason in failed.value.reasons] == [type(None), ItemExists]
        check(joined)
        assert claims(joined) == {"a@x": "ann"}

    def test_is_not_passed_on_within_one(self, joined: Store) -> None:
        """The transaction would write the claim twice; nothing of it is applied."""
        joined.put(ANN)
        joined.put(Member(member_id="bob", email="b@x"))

        def swap() -> None:
            with joined.transaction() as tx:
                tx.put(Member(member_id="ann", email="b@x"))
                tx.put(Member(member_id="bob", email="a@x"))

        def both() -> None:
            with joined.transaction() as tx:
                tx.put(Member(member_id="cleo", email="c@x"))
                tx.put(Member(member_id="dora", email="c@x"))

        for work in (swap, both):
            with pytest.raises(BadValue, match="say this in a transaction of its own"):
                work()
            check(joined)
        assert claims(joined) == {"a@x": "ann", "b@x": "bob"}
