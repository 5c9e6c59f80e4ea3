"""The entities of the machine: they share a partition and an index, and their keys change in every possible way."""
# ruff: noqa: RUF012  # pydantic copies defaults

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from odm import TTL, AccessPattern, Counter, Entity, PrimaryKey, Revision, Shards, Table, field

table = Table("random")

EPOCH = datetime(2100, 1, 1, tzinfo=UTC)
"""The start of the machine's clock: in the future, so that no service removes expired items by its own clock."""


class Task(Entity, table=table):
    """Has fields of every kind, and patterns on fields that change."""

    project: str
    name: str
    status: str = "new"
    level: Annotated[int, Field(ge=0, le=9)] = 0
    stock: Annotated[int, Field(le=6)] = 0
    due: str | None = None
    price: Decimal = Decimal(0)
    steps: list[str] = []
    tags: set[str] = set()
    seen: Annotated[int, Counter] = 0
    expires: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("PROJECT#{project}", "TASK#{name}")
    by_status = AccessPattern("STATUS#{status}", "{level}#{name}#{project}", index="gsi1")
    due_ones = AccessPattern("DUE", "{due}#{project}#{name}", index="gsi2")
    hard = AccessPattern("PROJECT#{project}", "{name}", when=field("level") > 6)
    by_stock = AccessPattern("PROJECT#{project}", "{stock}#{name}", local=True)
    spread = AccessPattern("TASKS", "{project}#{name}#{level}", shards=Shards(3, by="level"))
    scattered = AccessPattern("STATUS#{status}", "{due}#{project}#{name}", shards=Shards(2))


class Locked(Entity, table=table):
    """Has a Revision, and shares an index with `Task`."""

    name: str
    status: str = "new"
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("LOCKED#{name}")
    by_status = AccessPattern("STATUS#{status}", "{name}", index="gsi1")


class Note(Entity, table=table, keep=4):
    """Shares the partitions of `Task` and sorts before it; only the newest notes of a partition are kept."""

    project: str
    number: Annotated[int, Field(ge=0, le=99)]
    text: str = ""

    primary = PrimaryKey("PROJECT#{project}", "NOTE#{number}")
    newest = AccessPattern("NOTES", "{number:desc}#{project}", index="gsi2")
