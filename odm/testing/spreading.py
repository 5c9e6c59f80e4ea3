"""Tables and entities of the suite with sharded and local indexes.

``spread`` has sharded indexes, ``respread`` is the same table with other numbers of shards. ``salted`` has sharded
primary keys. ``few``, ``more`` and ``enough`` are one table while its numbers of shards grow. ``local`` has local
indexes. ``lean`` has indexes that do not project whole items.
"""

from datetime import date, datetime
from random import randrange
from typing import Annotated

from pydantic import Field

from odm import TTL, AccessPattern, Entity, PrimaryKey, Shards, Stored, Table

spread = Table("spread")
respread = Table("spread")
salted = Table("salted")
few = Table("growing")
more = Table("growing")
enough = Table("growing")
local = Table("local")
lean = Table("lean")


# --- table "spread"


class Job(Entity, table=spread):
    """Shards by a field of the sort key, by a field of neither template, and at random."""

    job_id: str
    queue: str = "q"
    owner: Annotated[int, Field(ge=0, lt=1000)] = 0
    level: int = 0
    due_at: datetime | None = None
    note: str = ""

    primary = PrimaryKey("JOB#{job_id}")
    by_due = AccessPattern("DUE", "{due_at}#{job_id}", shards=Shards(4, by="job_id"), index="gsi1")
    by_level = AccessPattern("QUEUE#{queue}", "{level}", shards=Shards(12, by="owner"))
    at_random = AccessPattern("RANDOM#{queue}", "{level}#{job_id}", shards=Shards(3))
    by_day = AccessPattern("DAY#{due_at:%Y%m%d}", "{level}#{job_id}", shards=Shards(2, by="job_id"))


class Pause(Entity, table=spread):
    """Has the partition template and index of a sharded pattern, and no shards."""

    due_at: datetime

    primary = PrimaryKey("PAUSE#{due_at}")
    by_due = AccessPattern("DUE#0", "{due_at}", index="gsi1")


class RespreadJob(Entity, table=respread, tag="Job"):
    """A Job after the number of shards has changed."""

    job_id: str
    due_at: datetime | None = None

    primary = PrimaryKey("JOB#{job_id}")
    by_due = AccessPattern("DUE", "{due_at}#{job_id}", shards=Shards(5, by="job_id"), index="gsi1")


class RespreadPause(Entity, table=respread, tag="Pause"):
    """Has the same patterns as before."""

    due_at: datetime

    primary = PrimaryKey("PAUSE#{due_at}")
    by_due = AccessPattern("DUE#0", "{due_at}", index="gsi1")


# --- table "salted"


class Sale(Entity, table=salted):
    """Its key determines its shard; it has a local and a global index."""

    day: date
    sale_id: str
    total: Annotated[int, Field(ge=0, lt=1000)] = 0
    note: str = ""

    primary = PrimaryKey("DAY#{day}", "SALE#{sale_id}", shards=Shards(12, by="sale_id"))
    by_total = AccessPattern("DAY#{day}", "TOTAL#{total}#{sale_id}", local=True)
    everywhere = AccessPattern("SALES", "{total}#{sale_id}")


class Bonus(Entity, table=salted):
    """Its key begins with the key of a sale, and it is in the same shard."""

    day: date
    sale_id: str
    number: int

    primary = PrimaryKey("DAY#{day}", "SALE#{sale_id}#BONUS#{number}", shards=Shards(12, by="sale_id"))


class Ticket(Entity, table=salted):
    """Its random shard number is a field of the key, so it is known for each item."""

    day: date
    number: int
    salt: int = Field(default_factory=lambda: randrange(3), ge=0, lt=3)

    primary = PrimaryKey("TICKETS#{day}", "{number}#{salt}", shards=Shards(3, by="salt"))


# --- table "growing"


class FewTask(Entity, table=few, tag="Task"):
    """Before the change: patterns with a few shards by a field, with a few random shards, and without shards."""

    task_id: str
    rank: int = 0
    note: str = ""

    primary = PrimaryKey("TASK#{task_id}")
    by_rank = AccessPattern("ALL", "{rank}#{task_id}", shards=Shards(2, by="task_id"))
    drawn = AccessPattern("DRAWN", "{rank}#{task_id}", shards=Shards(2))
    fresh = AccessPattern("FRESH", "{rank}#{task_id}")


class Task(Entity, table=more):
    """While entries move: to more shards with the same number of digits, to more digits, and from no shards."""

    task_id: str
    rank: int = 0
    note: str = ""

    primary = PrimaryKey("TASK#{task_id}")
    by_rank = AccessPattern("ALL", "{rank}#{task_id}", shards=Shards(4, by="task_id", was=2))
    drawn = AccessPattern("DRAWN", "{rank}#{task_id}", shards=Shards(11, was=2))
    fresh = AccessPattern("FRESH", "{rank}#{task_id}", shards=Shards(3, by="task_id", was=1))


class GrownTask(Entity, table=enough, tag="Task"):
    """After all entries have moved."""

    task_id: str
    rank: int = 0
    note: str = ""

    primary = PrimaryKey("TASK#{task_id}")
    by_rank = AccessPattern("ALL", "{rank}#{task_id}", shards=Shards(4, by="task_id"))
    drawn = AccessPattern("DRAWN", "{rank}#{task_id}", shards=Shards(11))
    fresh = AccessPattern("FRESH", "{rank}#{task_id}", shards=Shards(3, by="task_id"))


# --- table "local"


class Receipt(Entity, table=local):
    """A local index with every item, a sparse local index that is shared, and a global index."""

    shop: str
    number: Annotated[int, Field(ge=0, lt=10**6)]
    total: int = 0
    paid_by: str | None = None
    note: str = "n"

    primary = PrimaryKey("SHOP#{shop}", "RECEIPT#{number}")
    by_total = AccessPattern("SHOP#{shop}", "TOTAL#{total:desc}#{number}", local=True)
    by_payer = AccessPattern("SHOP#{shop}", "PAYER#{paid_by}", index="lsi2", local=True)
    by_note = AccessPattern("NOTE#{note}", "{number}")


class Voucher(Entity, table=local):
    """Shares a local index."""

    shop: str
    code: str

    primary = PrimaryKey("SHOP#{shop}", "VOUCHER#{code}")
    by_code = AccessPattern("SHOP#{shop}", "CODE#{code}", index="lsi2", local=True)


# --- table "lean"


class Report(Entity, table=lean):
    """Indexes that project keys, some fields, keys in a local index, and keys in shards."""

    report_id: str
    team: str = "t"
    number: Annotated[int, Field(ge=0, lt=10**6)] = 0
    score: Annotated[int, Stored("s")] = 0
    body: str = ""
    until: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("REPORT#{report_id}", "REPORT")
    by_team = AccessPattern("TEAM#{team}", "{number}", projection="keys")
    by_score = AccessPattern("TEAM#{team}", "{score}#{number}", projection=("score", "number"))
    by_number = AccessPattern("REPORT#{report_id}", "NUMBER#{number}", local=True, projection="keys")
    spread = AccessPattern("ALL", "{number}", shards=Shards(3, by="report_id"), projection="keys")
