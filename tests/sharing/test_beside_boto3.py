"""Two programs on one table that the other one made: boto3 as it likes, and a store with models of the table.

The other program also writes directly before requests of the store. ``pytest --full --times 10 tests/sharing`` makes
more calls.
"""

import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final
from uuid import uuid4

import boto3
import pytest

from odm import Entity, OdmError, Store
from odm.backends.dynamodb import DynamoDB
from tests.effort import times
from tests.sharing.existing import DIGESTS, GAMES, NOON, NUMBERS, ROOMS, SCORES, USERS, Models, Picks, models

pytestmark = pytest.mark.slow

Attributes = dict[str, Any]
Key = tuple[str, str]


SHAPES: Final = {
    "Comment": (r"User:(?P<user>.+)", r"C_(?P<at>\d{3})"),
    "Score": (r"Player\|(?P<player>.+)", r"(?P<round>0|[1-9]\d*)_R"),
    "Invoice": (r"User:(?P<user>.+)", r"DOC/(?P<number>\d+)"),
    "Receipt": (r"User:(?P<user>.+)", r"DOC/(?P<number>\d+)"),
}
STORED: Final = {
    "room": "RoomID",
    "created": "Created",
    "game": "Game",
    "score": "Score",
    "digest": "Digest",
    "mail": "Mail",
    "kind": "Type",
}
MADE: Final = {"mood": ("GSI1PK", "GSI1SK"), "expires_at": ("expires_at", "expires")}


@pytest.fixture(params=["moto_server", "dynamodb_local"])
def endpoint(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=[None, "EntityType"])
def known(request: pytest.FixtureRequest) -> Models:
    return models(request.param)


def _session() -> boto3.Session:
    return boto3.Session(aws_access_key_id="programs", aws_secret_access_key="x", region_name="eu-west-1")


@pytest.mark.parametrize("seed", range(times(1, 2)))
def test_neither_loses_what_the_other_wrote(endpoint: str, known: Models, seed: int) -> None:
    session, prefix = _session(), f"{uuid4().hex[:8]}-"
    other = Other(_session().client("dynamodb", endpoint_url=endpoint), f"{prefix}existing", known, Random(seed))
    with Store(
        known.table, DynamoDB(session, endpoint_url=endpoint), prefix=prefix, on_unknown="skip", clock=NOON.timestamp
    ) as db:
        db.create()
        program = Program(db, other, known, Random(seed))
        for name in ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"):
            session.events.register(f"before-call.dynamodb.{name}", program.interrupted)
        for number in range(times(70, 150)):
            for _ in range(Random(seed * 1000 + number).randrange(3)):
                other.write()
            program.step(number)
            if number % 7 == 6:
                program.read()


class Other:
    """The program that writes with boto3."""

    def __init__(self, client: Any, table: str, known: Models, random: Random) -> None:
        self._client = client
        self._table = table
        self._tag = known.table.compile().tag
        self._random = random

    def write(self) -> None:
        pick = self._random.choice
        at = pick(self._keys())
        key = {name: {"S": text} for name, text in zip(("PK", "SK"), at, strict=True)}
        kind = self._random.random()
        if kind < 0.4:
            self._client.put_item(TableName=self._table, Item=key | self._item(at))
        elif kind < 0.5:
            self._client.delete_item(TableName=self._table, Key=key)
        else:
            name, value = pick(self._changes(at))
            text = "SET #a = :v" if value else "REMOVE #a"
            values = {"ExpressionAttributeValues": {":v": value}} if value else {}
            self._client.update_item(
                TableName=self._table, Key=key, UpdateExpression=text, ExpressionAttributeNames={"#a": name}, **values
            )

    def _keys(self) -> list[Key]:
        people = [(f"User:{user}", sort) for user in USERS for n in NUMBERS for sort in (f"C_{n:03}", f"DOC/{n}")]
        scores = [(f"Player|{user}", f"{n}_R") for user in USERS for n in NUMBERS]
        return [*people, *scores, ("User:ann", "else"), ("Other", "C_001"), ("Player|bo", "01_R"), ("User:", "C_001")]

    def _item(self, at: Key) -> Attributes:
        found: Attributes = {"extra": {"M": {"n": {"N": "1.0"}}}} if self._random.random() < 0.5 else {}
        if self._tag is not None:
            names = [name for name in SHAPES if _fits(name, at)] or ["Else"]
            found[self._tag] = {"S": self._random.choice([*names, *names, *names, "Else"])}
        for name, value in self._changes(at):
            if value and name != self._tag and self._random.random() < 0.5:
                found[name] = value
        return found

    def _changes(self, at: Key) -> list[tuple[str, Attributes | None]]:
        """Attributes that this program may write, None to remove them."""
        pick = self._random.choice
        found: list[tuple[str, Attributes | None]] = [
            ("extra", {"S": "e"}),
            ("stars", {"N": pick(["0", "7", "2"])}),
            ("stars", None),
        ]
        if at[1].startswith("C_"):
            found += [
                ("RoomID", pick([None, *({"S": room} for room in ROOMS)])),
                ("Created", pick([None, {"S": "c1"}, {"S": "c2"}])),
                ("GSI1PK", pick([None, {"S": "MOOD fine!"}, {"S": "MOOD b ad!"}, {"S": "NONE"}])),
                ("GSI1SK", pick([None, {"S": at[1][2:]}])),
                ("tags", pick([None, {"SS": ["x"]}])),
                ("expires", pick([None, {"N": str(int(NOON.timestamp()) + 50)}])),
            ]
        elif at[1].startswith("DOC/"):
            found += [("Type", {"S": pick(["invoice", "receipt", "letter"])}), ("Mail", pick([None, {"S": "a@b"}]))]
        else:
            found += [
                ("Digest", pick([None, *({"B": digest} for digest in DIGESTS)])),
                ("Game", pick([None, *({"S": game} for game in GAMES)])),
                ("Score", pick([None, *({"N": str(score)} for score in SCORES), {"N": "1E1"}])),
            ]
        return found

    def table(self) -> dict[Key, Attributes]:
        """All items."""
        found: dict[Key, Attributes] = {}
        for page in self._client.get_paginator("scan").paginate(TableName=self._table, ConsistentRead=True):
            found |= {(item["PK"]["S"], item["SK"]["S"]): item for item in page["Items"]}
        return found

    def entity_of(self, at: Key, item: Attributes) -> str | None:
        """The name of the entity of an item."""
        kinds = {"invoice": "Invoice", "receipt": "Receipt"}
        if at[1].startswith("DOC/"):
            names = [kinds[kind]] if (kind := item.get("Type", {}).get("S")) in kinds else []
        else:
            names = ["Comment", "Score"]
        names = [name for name in names if _fits(name, at)]
        if self._tag is not None:
            names = [name for name in names if item.get(self._tag) == {"S": name}]
        return names[0] if names else None


def _fits(name: str, at: Key) -> bool:
    return all(re.fullmatch(shape, text, re.ASCII) for shape, text in zip(SHAPES[name], at, strict=True))


class Program:
    """The program that uses odm: random calls, each compared with what the table was and is."""

    def __init__(self, db: Store, other: Other, known: Models, random: Random) -> None:
        self._db = db
        self._other = other
        self._known = known
        self._random = random
        self._pick = Picks(known, random)
        self._before: dict[Key, Attributes] = {}

    def interrupted(self, **_: object) -> None:
        """The other program writes now and then just before a write of the store."""
        if self._random.random() < 0.5:
            self._other.write()
        self._before = self._other.table()

    def step(self, number: int) -> None:
        kinds = (self._put, self._update, self._update, self._delete, self._transact, self._batch)
        allowed, call, name = self._random.choice(kinds)()
        self._before = self._other.table()
        outcome = "applied"
        try:
            call()
        except OdmError as error:
            outcome = type(error).__name__
        after = self._other.table()
        where = f"{name}: {outcome}, step {number}"
        for at in self._before.keys() | after.keys():
            old, new = self._before.get(at), after.get(at)
            if old != new:
                assert outcome == "applied", (where, at, old, new)
                assert at in allowed, (where, at, old, new)
                allowed[at](old, new, where)

    def _get(self, entity: Any) -> Any:
        return self._db.get(type(entity).primary(**_key_values(entity)))

    def _key_of(self, which: Any) -> Key:
        key = self._db.key_of(which)
        return key[0], key[1]

    def _put(self) -> Any:
        entity = self._pick.entity()

        def call() -> None:
            self._db.put(entity)
            at = self._key_of(entity)
            once = self._other.table().get(at)
            again = self._get(entity)
            if again is not None:
                self._db.put(again)
            if self._before.get(at) == once:  # the other program wrote nothing meanwhile
                assert self._other.table().get(at) == once, entity

        return {self._key_of(entity): self._is(entity)}, call, f"put {entity!r}"

    def _is(self, entity: Any) -> Callable[[Any, Any, str], None]:
        def check(_: Any, new: Any, where: str) -> None:
            assert new == self._expected(entity), where

        return check

    def _expected(self, entity: Any) -> Attributes:
        """The attributes of an entity, as the other program has them."""
        partition, sort = self._key_of(entity)
        found: Attributes = {"PK": {"S": partition}, "SK": {"S": sort}, "stars": {"N": str(entity.stars)}}
        if (tag := self._known.table.compile().tag) is not None:
            found[tag] = {"S": type(entity).__name__}
        for name, stored in STORED.items():
            value = getattr(entity, name, None)
            if value is not None:
                kind = {int: "N", bytes: "B"}.get(type(value), "S")
                found[stored] = {kind: str(value) if kind == "N" else value}
        if isinstance(entity, self._known.comment):
            found["lines"] = {"L": [{"S": line} for line in entity.lines]}
            if entity.tags:
                found["tags"] = {"SS": sorted(entity.tags)}
            if entity.mood is not None:
                found |= {"GSI1PK": {"S": f"MOOD {entity.mood}!"}, "GSI1SK": {"S": f"{entity.at:03}"}}
            if entity.expires_at is not None:
                found["expires_at"] = {"S": f"{entity.expires_at:%Y-%m-%dT%H:%M:%S.%fZ}"}
                found["expires"] = {"N": str(int(entity.expires_at.timestamp()))}
        return found

    def _update(self) -> Any:
        cls = type(self._pick.entity())
        key, actions = self._pick.key(cls), self._pick.actions(cls)
        when = self._pick.condition(cls, reading=False) if self._random.random() < 0.3 else None
        upsert = self._random.random() < 0.3
        return (
            {self._key_of(key): _changes(actions)},
            lambda: self._db.update(key, *actions, when=when, upsert=upsert),
            f"update {key} {[*map(str, actions)]} {when=!s} {upsert=}",
        )

    def _delete(self) -> Any:
        key = self._pick.key()
        return {self._key_of(key): _is_gone}, lambda: self._db.delete(key), f"delete {key}"

    def _transact(self) -> Any:
        comment, key = self._pick.comment(), self._pick.key(self._known.score)
        gone, actions = self._pick.key(self._known.invoice), self._pick.actions(self._known.score)

        def call() -> None:
            with self._db.transaction() as tx:
                tx.put(comment)
                tx.update(key, *actions, upsert=True)
                tx.delete(gone)

        allowed = {
            self._key_of(comment): self._is(comment),
            self._key_of(key): _changes(actions),
            self._key_of(gone): _is_gone,
        }
        return allowed, call, f"transaction {comment!r} {key} {[*map(str, actions)]} {gone}"

    def _batch(self) -> Any:
        comment, score, gone = self._pick.comment(), self._pick.score(), self._pick.key(self._known.receipt)

        def call() -> None:
            with self._db.batch() as batch:
                batch.put(comment)
                batch.put(score)
                batch.delete(gone)

        allowed = {
            self._key_of(comment): self._is(comment),
            self._key_of(score): self._is(score),
            self._key_of(gone): _is_gone,
        }
        return allowed, call, f"batch {comment!r} {score!r} {gone}"

    def read(self) -> None:
        """Compare what the store reads with the table."""
        table = self._other.table()
        wanted = {at: name for at, item in table.items() if (name := self._other.entity_of(at, item))}
        found = {self._key_of(entity): entity for entity in self._db.scan()}
        assert {at: type(entity).__name__ for at, entity in found.items()} == wanted
        for at, entity in found.items():
            assert _values(entity) == _read(wanted[at], at, table[at]), (at, table[at])
            assert self._get(entity) == entity
        for index, names, query in self._queries():
            entries = {at: [table[at].get(name) for name in index] for at in wanted}
            there = {at for at, values in entries.items() if all(values)}
            fits = {at for at in there if wanted[at] in names and query.values.items() <= _values(found[at]).items()}
            assert {self._key_of(entity) for entity in self._db.query(query)} == fits, str(query)
            assert self._db.count(query) == len(fits), str(query)

    def _queries(self) -> Iterator[tuple[tuple[str, ...], set[str], Any]]:
        of = self._known
        for room in ROOMS:
            yield ("RoomID", "Created"), {"Comment"}, of.comment.by_room(room=room)
        for game in GAMES:
            yield ("Game", "Score"), {"Score"}, of.score.by_score(game=game)
            yield ("Game", "Digest"), {"Score"}, of.score.by_digest(game=game)
        for mood in ("fine", "b ad"):
            yield ("GSI1PK", "GSI1SK"), {"Comment"}, of.comment.by_mood(mood=mood)
        for number in NUMBERS:
            yield ("SK", "PK"), {"Comment"}, of.comment.by_at(at=number)
        yield ("Mail",), {"Invoice"}, of.invoice.by_mail(mail="a@b")
        yield ("Mail",), {"Receipt"}, of.receipt.by_mail(mail="a@b")


def _changes(actions: list[Any]) -> Callable[[Any, Any, str], None]:
    """Checks that only the attributes of the actions changed."""
    names = {action.path.root for action in actions}
    stored = {attribute for name in names for attribute in MADE.get(name, (STORED.get(name, name),))}

    def check(old: Any, new: Any, where: str) -> None:
        if old is None:  # created
            return
        assert new is not None, where
        differ = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        assert differ <= stored, (where, old, new)

    return check


def _is_gone(_: Any, new: Any, where: str) -> None:
    assert new is None, where


def _key_values(entity: Any) -> dict[str, Any]:
    return {
        name: value for name, value in _values(entity).items() if name in ("user", "at", "player", "round", "number")
    }


def _values(entity: Entity) -> dict[str, Any]:
    return {name: getattr(entity, name) for name in type(entity).model_fields}


def _read(name: str, at: Key, item: Attributes) -> dict[str, Any]:
    """The values of the fields of an entity, from the attributes of its item."""
    found: dict[str, Any] = {}
    for shape, text in zip(SHAPES[name], at, strict=True):
        matched = re.fullmatch(shape, text, re.ASCII)
        assert matched is not None
        found |= {field: int(part) if part.isdigit() else part for field, part in matched.groupdict().items()}
    found["stars"] = int(item.get("stars", {}).get("N", "0"))
    if name == "Score":
        score = item.get("Score", {}).get("N")
        found["score"] = None if score is None else int(float(score))
        return found | {"game": item.get("Game", {}).get("S"), "digest": item.get("Digest", {}).get("B")}
    if name != "Comment":
        return found | {"mail": item.get("Mail", {}).get("S"), "kind": item["Type"]["S"]}
    mood = re.fullmatch(r"MOOD (.+)!", item.get("GSI1PK", {}).get("S", ""))
    expiry = item.get("expires_at", {}).get("S")
    return found | {
        "room": item.get("RoomID", {}).get("S"),
        "created": item.get("Created", {}).get("S", "c1"),
        "mood": mood[1] if mood else None,
        "tags": set(item.get("tags", {}).get("SS", ())),
        "lines": [line["S"] for line in item.get("lines", {}).get("L", ())],
        "expires_at": None if expiry is None else NOON.fromisoformat(expiry),
    }
