"""The entities of `test_stateful_patterns`, and `Promises`: a model of their patterns with plain objects in a dict."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from hypothesis import strategies as st
from pydantic import Field

from odm import (
    TTL,
    AccessPattern,
    BadValue,
    Entity,
    ItemExists,
    OdmError,
    PrimaryKey,
    Revision,
    Shards,
    Table,
    TransactionFailed,
    field,
)
from odm.patterns.adjacency_list import AdjacencyList, edge
from odm.patterns.pointer import Pointer
from odm.patterns.sharded_counter import ShardedCounter
from odm.patterns.unique import Unique
from odm.patterns.versioned import Versioned
from odm.testing.stateful.model import Model, Predicate, Write

EPOCH = datetime(2100, 1, 1, tzinfo=UTC)

table = Table("patterns")


class Account(Entity, table=table):
    """Has unique values, a pointer, and indexes with and without shards."""

    name: str
    email: str | None = None
    tenant: str | None = None
    nick: str | None = None
    group: str | None = None
    level: Annotated[int | None, Field(ge=-3, le=3)] = None
    note: str = ""

    primary = PrimaryKey("ACCOUNT#{name}")
    unique_email = Unique("email")
    unique_nick = Unique("tenant", "nick")
    highest = Pointer("HIGHEST#{group}", tracks="level")
    by_group = AccessPattern("GROUP#{group}", "{level}#{name}")
    noted = AccessPattern("NOTED#{note}", "{name}", when=field("note") != "", shards=Shards(3, by="name", was=2))


class Document(Entity, table=table):
    """Keeps three versions; its partition is sharded."""

    doc_id: str
    text: str = ""
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("DOCS", "{doc_id}#v0", shards=Shards(3, by="doc_id"))
    history = Versioned("KEPT", "{doc_id}#v{revision}", keep=3)


class Price(Entity, table=table):
    """Has all three: versions, a unique code and a pointer."""

    item: str
    code: str | None = None
    amount: int = 0
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("PRICE#{item}", "NOW")
    history = Versioned("PRICE#{item}", "THEN#{revision}")
    unique_code = Unique("code")
    dearest = Pointer("DEAREST", "PRICE", tracks="amount")
    by_amount = AccessPattern("DEAREST#PRICE", "{amount}#{item}")


class Order(Entity, table=table):
    """Has a TTL, and a pointer that tracks a field of its key."""

    customer: str
    number: Annotated[int, Field(ge=0, lt=100)]
    expires: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("CUSTOMER#{customer}", "ORDER#{number}")
    latest = Pointer("LAST#{customer}", tracks="number")


class User(Entity, table=table):
    user: str

    primary = PrimaryKey("USER#{user}", "PROFILE")


class Follows(Entity, table=table):
    """An edge whose sort field changes."""

    follower: str
    followed: str
    since: Annotated[int, Field(ge=0, lt=10)] = 0

    primary, out, into = edge("USER#{follower}", "FOLLOWS", "USER#{followed}", sort="{since}")


class Plays(Entity, table=table):
    song: str
    shard: Annotated[int, Field(ge=0, lt=100)] = 0
    count: int = 0

    primary = PrimaryKey("PLAYS#{shard}#{song}")


network = AdjacencyList(User, Follows)
plays = ShardedCounter(Plays, shards=2, reads=3)

NAMES = ["a", "b", "a#b", "ü"]
WORDS = st.sampled_from(["x", "y", "x#y", "é"])
USERS = ["ann", "bob", "c#d"]
CLASSES: tuple[type[Any], ...] = (Account, Document, Price, Order, User, Follows)
HELD: dict[type, dict[str, tuple[str, ...]]] = {
    Account: {"unique_email": ("email",), "unique_nick": ("tenant", "nick")},
    Price: {"unique_code": ("code",)},
}
POINTERS: dict[type, dict[str, tuple[tuple[str, ...], str]]] = {
    Account: {"highest": (("group",), "level")},
    Price: {"dearest": ((), "amount")},
    Order: {"latest": (("customer",), "number")},
}
KEPT: dict[type, int | None] = {Document: 3, Price: None}


class Promises(Model):
    """The expected items and answers of a store, with those of the patterns."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(table.compile(), clock)
        self.pointers: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self.histories: dict[Any, dict[int, Any]] = {}

    def claimed(self, item: Any) -> dict[tuple[Any, ...], Any]:
        """The unique values of an item, each with the item."""
        named = {name: tuple(getattr(item, f) for f in fields) for name, fields in HELD.get(type(item), {}).items()}
        return {(type(item), name, *values): item for name, values in named.items() if None not in values}

    @property
    def claims(self) -> dict[tuple[Any, ...], Any]:
        return {claim: item for one in self.stored.values() for claim, item in self.claimed(one).items()}

    def _keep(self, entity: Any, revision: int | None) -> Any:
        there = self.claims
        for claim in self.claimed(entity):
            if claim in there and self.identity(there[claim]) != self.identity(entity):
                raise ItemExists("", there[claim])
        new = super()._keep(entity, revision)
        for name, (fields, tracks) in POINTERS.get(type(new), {}).items():
            at, value = (type(new), name, *(getattr(new, f) for f in fields)), getattr(new, tracks)
            if None not in (*at, value) and (at not in self.pointers or value > self.pointers[at][0]):
                self.pointers[at] = (value, self.identity(new))
        if type(new) in KEPT:
            history, keep = self.histories.setdefault(self.identity(new), {}), KEPT[type(new)]
            history[new.revision] = new
            if keep is not None:
                history.pop(new.revision - keep, None)
        return new

    def delete(self, which: Any, *, when: Predicate | None = None) -> bool:
        gone = super().delete(which, when=when)
        if gone:
            self.histories.pop(self.identity(which), None)
        return gone

    def delete_all(self, matches: Callable[[Any], bool]) -> int:
        going = [item for item in self.living if matches(item)]
        self.stored = {at: item for at, item in self.stored.items() if not matches(item)}
        for item in going:
            self.histories.pop(self.identity(item), None)
        return len(going)

    def pointed(self, at: tuple[Any, ...]) -> Any:
        """The item of a pointer, or None if it no longer belongs to the pointer."""
        _, identity = self.pointers.get(at, (None, None))
        item = self.stored.get(identity)
        fields, tracks = POINTERS[at[0]][at[1]]
        there = item is not None and not self._expired(item) and getattr(item, tracks) is not None
        return item if there and at[2:] == tuple(getattr(item, f) for f in fields) else None

    def transaction(self, writes: Sequence[Write]) -> None:
        """Apply all writes or none, by the items before the transaction; no claim is written twice."""
        reasons: list[OdmError | None] = []
        written: list[Any] = []
        for write in writes:
            reason, old, new = self._trial(write)
            if reason is None:
                there = {claim: item for claim, item in self.claims.items() if claim in new and claim not in old}
                reason = ItemExists("") if there else None
            elif write.call != "insert" and not _at_zero(write):
                new = old
            reasons.append(reason)
            written += old ^ new
        if len(written) > len(set(written)):
            raise BadValue("")
        if any(reasons):
            raise TransactionFailed("", reasons)
        for write in writes:
            write.on_model(self)

    def _trial(self, write: Write) -> tuple[OdmError | None, set[Any], set[Any]]:
        """The error of a write by itself, and the claims of the item before and after it."""
        old = self.find(write.which)
        held = set(self.claimed(old)) if old is not None else set()
        trial = Promises(self._clock)
        trial.stored = {} if old is None else {self.identity(old): old}
        try:
            if write.call == "delete" and old is None:  # its conditions count
                assert write.when is None or not write.when.holds(None)
                self._check_revision(write.which, None)
            write.on_model(trial)
        except OdmError as error:
            fresh = isinstance(write.which, Entity)
            return error, set() if fresh else held, set(self.claimed(write.which)) if fresh else held
        return None, held, {claim for item in trial.stored.values() for claim in self.claimed(item)}


def _at_zero(write: Write) -> bool:
    """Whether it is a put of a new entity, which is an insert."""
    return write.call == "put" and getattr(write.which, "revision", None) == 0
