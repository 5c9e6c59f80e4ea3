"""Two programs on one table: one with boto3, which writes attributes as it likes, and one with odm.

Nothing that the other program wrote is lost, and the table always holds exactly what both have written.
"""

import random
from typing import Any
from uuid import uuid4

import boto3
import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from odm import ItemNotFound, Store, increment, remove, set_
from odm.backends.dynamodb import DynamoDB
from odm.results import RequestInfo
from odm.testing.suite.described import Game, Player, existing

pytestmark = pytest.mark.slow

STEPS = 400
PLAYERS = ("Ann Lee", "Bo#", "C:d")
_WRITE, _READ = TypeSerializer().serialize, TypeDeserializer().deserialize

Attributes = dict[str, Any]


class Walk:
    """The two programs, and what the table must hold."""

    def __init__(self, endpoint: str, seed: int) -> None:
        session = boto3.Session(
            aws_access_key_id=uuid4().hex[:20], aws_secret_access_key="secret", region_name="eu-west-1"
        )
        self.other: Any = session.client("dynamodb", endpoint_url=endpoint)
        self.odm = Store(existing, DynamoDB(session, endpoint_url=endpoint), on_request=self.between)
        self.odm.create()
        self.random = random.Random(seed)
        self.table: dict[tuple[str, str], Attributes] = {}
        self.intrudes = False
        self.reading = (PLAYERS[0], 0)
        self.intrusions = 0

    def key(self) -> tuple[str, int]:
        return self.random.choice(PLAYERS), self.random.randrange(4)

    def between(self, info: RequestInfo) -> None:
        """The other program writes after odm has read an item, and before it writes."""
        if self.intrudes and info.operation == "Get":
            self.intrudes = False
            self.intrusions += 1
            self.change_by_other(self.reading)

    def step(self) -> None:
        player, number = self.reading = self.key()
        self.intrudes = self.random.random() < 0.4
        steps = (self.put, self.change, self.change, self.change, self.delete, self.put_by_other, self.change_by_other)
        self.random.choice(steps)((player, number))
        self.intrudes = False

    def put(self, key: tuple[str, int]) -> None:
        player, number = key
        where = self.random.choice([None, "x", "y #"])
        game = Game(player=player, number=number, at=self.random.randrange(9), map=where, score=1)
        self.odm.put(game)
        self.table[self.place(key)] = {"at": game.at, "score": 1} | ({"GSI1-PK": f"MAP: {where}"} if where else {})

    def change(self, key: tuple[str, int]) -> None:
        """An update by odm: only the attributes that it names change, and the key attributes made from them."""
        number = self.random.randrange(100)
        where = self.random.choice([None, "x", "z"])
        choices: list[tuple[Any, Attributes]] = [
            (set_(Game.score, number), {"score": number}),
            (increment(Game.score, 3), {"score": None}),
            (set_(Game.at, number), {"at": number}),
            (remove(Game.map) if where is None else set_(Game.map, where), {"GSI1-PK": where and f"MAP: {where}"}),
        ]
        action, changed = self.random.choice(choices)
        try:
            self.odm.update(Game.primary(player=key[0], number=key[1]), action)
        except ItemNotFound:
            assert self.place(key) not in self.table
            return
        item = self.table[self.place(key)]
        for name, value in changed.items():
            if name == "score" and value is None:
                item[name] = item.get(name, 0) + 3
            elif value is None:
                item.pop(name, None)
            else:
                item[name] = value

    def delete(self, key: tuple[str, int]) -> None:
        assert self.odm.delete(Game.primary(player=key[0], number=key[1])) is (self.place(key) in self.table)
        self.table.pop(self.place(key), None)

    def put_by_other(self, key: tuple[str, int]) -> None:
        item: Attributes = {"at": self.random.randrange(9), "own": {"list": [1, "a"]}}
        if self.random.random() < 0.5:
            item |= {"GSI1-PK": "MAP: x", "score": 5}
        written = item | dict(zip(("PK", "SK"), self.place(key), strict=True))
        self.other.put_item(TableName="existing", Item={name: _WRITE(value) for name, value in written.items()})
        self.table[self.place(key)] = item

    def change_by_other(self, key: tuple[str, int]) -> None:
        """One attribute of an item that is there, also the key attribute of an index."""
        if self.place(key) not in self.table:
            return
        name, value = self.random.choice(
            [("own", "text"), ("score", 7), ("at", 5), ("GSI1-PK", "MAP: y #"), ("new", 1)]
        )
        self.other.update_item(
            TableName="existing",
            Key={name: {"S": text} for name, text in zip(("PK", "SK"), self.place(key), strict=True)},
            UpdateExpression="SET #a = :a",
            ExpressionAttributeNames={"#a": name},
            ExpressionAttributeValues={":a": _WRITE(value)},
        )
        self.table[self.place(key)][name] = value

    def place(self, key: tuple[str, int]) -> tuple[str, str]:
        return f"P#{key[0]}", f"G|{key[1]}"

    def check(self) -> None:
        items = self.other.scan(TableName="existing", ConsistentRead=True)["Items"]
        found = {(item.pop("PK")["S"], item.pop("SK")["S"]): item for item in items}
        assert {key: {n: _READ(v) for n, v in item.items()} for key, item in found.items()} == self.table
        games = {(f"P#{one.player}", f"G|{one.number}"): one for one in self.odm.scan(Game)}
        assert games.keys() == self.table.keys()
        for key, game in games.items():
            item = self.table[key]
            where = item.get("GSI1-PK")
            assert (game.at, game.score, game.map) == (
                item["at"],
                item.get("score", 0),
                where and where[len("MAP: ") :],
            )


@pytest.mark.parametrize("seed", range(2))
def test_no_write_is_lost(dynamodb_local: str, seed: int) -> None:
    walk = Walk(dynamodb_local, seed)
    walk.odm.put(Player(name="Ann Lee"))
    walk.odm.delete(Player.primary(name="Ann Lee"))
    for _ in range(STEPS // 2):
        walk.step()
        walk.check()
    assert walk.intrusions > 5
    for where in ("x", "y #", "z"):
        expected = {key for key, item in walk.table.items() if item.get("GSI1-PK") == f"MAP: {where}"}
        assert {(f"P#{one.player}", f"G|{one.number}") for one in walk.odm.query(Game.by_map(map=where))} == expected


def test_an_update_keeps_unknown_attributes(dynamodb_local: str) -> None:
    walk = Walk(dynamodb_local, 99)
    walk.put_by_other(("Bo#", 1))
    before = walk.other.scan(TableName="existing")["Items"]
    game = walk.odm.one(Game.primary(player="Bo#", number=1))
    walk.odm.update(game, set_(Game.score, game.score))
    after = walk.other.scan(TableName="existing")["Items"]
    assert after == [{**before[0], "score": {"N": str(game.score)}}]
