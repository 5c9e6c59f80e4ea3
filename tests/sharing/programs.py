"""Other programs that write to odm's tables: with boto3, with Google's client, and with models unknown to the store."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from google.cloud.bigtable.data import BigtableDataClient, ReadRowsQuery, SetCell

from odm import AccessPattern, Entity, ItemInvalid, PrimaryKey, Store, Table
from odm.protocol.connection import Backend
from tests.sharing.walk import GROUPS, NAMES, NOON, item_keys

EXPIRED: Final = int(NOON.timestamp()) - 7200

alien = Table("shared")


class Alien(Entity, table=alien):
    group: str
    name: str
    text: str = ""

    primary = PrimaryKey("GROUP#{group}", "ORDER#{name}")
    by_status = AccessPattern("STATUS#{text}", "{name}")


class Stray(Entity, table=alien):
    name: str

    primary = PrimaryKey("STRAY#{name}", "X")


class Models:
    """Writes to the same table with models that the store does not know."""

    def __init__(self, backend: Backend) -> None:
        self._db = Store(alien, backend, on_unknown="skip")
        self._wrote: dict[Any, Entity] = {}

    def write(self, random: Random) -> None:
        alien_item = Alien(group=random.choice(GROUPS), name=random.choice(NAMES), text=random.choice(["open", "x"]))
        item = random.choice([alien_item, alien_item, Stray(name=random.choice(NAMES))])
        try:
            self._db.put(item)
        except ItemInvalid:  # the store has an item there
            return
        self._wrote[self._db.key_of(item)] = item

    def changed(self) -> list[str]:
        found = {self._db.key_of(item): item for item in self._db.scan()}
        return [str(key) for key, item in self._wrote.items() if found.get(key) != item]


class Boto3:
    """Puts items under keys where the store has no item."""

    def __init__(self, client: Any, table: str) -> None:
        self._client = client
        self._table = table
        self._wrote: dict[tuple[str, str], dict[str, Any]] = {}

    def write(self, random: Random) -> None:
        keys = [*item_keys(), ("STRAY#1", "X"), ("GROUP#a", "ORDER"), ("STATUS#open", "1")]
        partition, sort = random.choice(keys)
        item: dict[str, Any] = {"pk": {"S": partition}, "sk": {"S": sort}, "n": {"N": str(random.randrange(9))}}
        extra: list[dict[str, Any]] = [
            {},
            {"_t": {"S": "Alien"}},
            {"_t": {"N": "5"}},
            {"_t": {"L": []}},
            {"_ttl": {"N": str(EXPIRED)}},
            {"_t": {"S": "Alien"}, "_ttl": {"N": str(EXPIRED)}},
            {"by_statuspk": {"S": "STATUS#open"}, "by_statussk": {"S": sort}, "status": {"S": "open"}},
            {"size": {"N": "5"}, "views": {"N": "7"}, "tags": {"SS": ["q"]}, "stock": {"M": {"m": {"N": "1"}}}},
        ]
        item |= random.choice(extra)
        free = {} if (partition, sort) in self._wrote else {"ConditionExpression": "attribute_not_exists(pk)"}
        try:
            self._client.put_item(TableName=self._table, Item=item, **free)
        except self._client.exceptions.ConditionalCheckFailedException:  # the store has an item there
            return
        self._wrote[partition, sort] = item

    def changed(self) -> list[str]:
        found: dict[tuple[str, str], Any] = {}
        for page in self._client.get_paginator("scan").paginate(TableName=self._table, ConsistentRead=True):
            found |= {(item["pk"]["S"], item["sk"]["S"]): item for item in page["Items"]}
        return [str(key) for key, item in self._wrote.items() if found.get(key) != item]


class GoogleClient:
    """Writes cells: of its own column family in any row, and of odm's families in rows without an item."""

    def __init__(self, client: BigtableDataClient, instance: str, table: str) -> None:
        self._rows = client.get_table(instance, table)
        self._index = client.get_table(instance, f"{table}.by_status")
        self._wrote: dict[tuple[bool, bytes, str, bytes], bytes] = {}

    def write(self, random: Random) -> None:
        if random.random() < 0.2:
            self._set(True, random.choice([b"STATUS#open##1##GROUP#a##ORDER#1", b"else"]), "MD", b"SYMBOL", b"x")
            return
        row = random.choice([f"{partition}#{sort}" for partition, sort in item_keys()] + ["other", "GROUP#a#ORDER"])
        value = str(random.randrange(9)).encode()
        choices: list[Callable[[], None]] = [
            lambda: self._set(False, row.encode(), "MD", b"SYMBOL", value),
            lambda: self._set(False, row.encode(), "MD", b"\xff", value),
            lambda: self._set_where_nothing_is(row.encode(), "d", b"readings#0000", value),
            lambda: self._set_where_nothing_is(row.encode(), "d", b"\xff", value),
            lambda: self._set_where_nothing_is(row.encode(), "d", b"_t", b"Alien"),
            lambda: self._set_where_nothing_is(row.encode(), "d", b"_ttl", str(EXPIRED).encode()),
            lambda: self._set_where_nothing_is(row.encode(), "c", b"foo", value),
        ]
        random.choice(choices)()

    def _set_where_nothing_is(self, row: bytes, family: str, qualifier: bytes, value: bytes) -> None:
        found = self._rows.read_row(row)
        held = {(cell.family, cell.qualifier): cell.value for cell in (found or ())}
        if held.get(("d", b"_t"), b"Alien") == b"Alien" and ("d", b"~r") not in held:
            self._set(False, row, family, qualifier, value)

    def _set(self, index: bool, row: bytes, family: str, qualifier: bytes, value: bytes) -> None:
        table = self._index if index else self._rows
        table.mutate_row(row, SetCell(family, qualifier, value, timestamp_micros=1_000))
        self._wrote[index, row, family, qualifier] = value

    def changed(self) -> list[str]:
        found = {
            (index, row.row_key, cell.family, cell.qualifier): cell.value
            for index, table in ((False, self._rows), (True, self._index))
            for row in table.read_rows(ReadRowsQuery())
            for cell in row
        }
        return [str(place) for place, value in self._wrote.items() if found.get(place) != value]
