"""What the suite stores of entities with sharded and local indexes.

``spread`` has sharded indexes, ``respread`` is the same with other numbers of shards; ``beside`` has local indexes,
``lean`` has indexes that do not hold whole items.
"""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from odm import TTL, AccessPattern, Entity, PrimaryKey, Shards, Stored, Table

spread = Table("spread")
respread = Table("spread")
beside = Table("beside")
lean = Table("lean")


# --- table "spread"


class Job(Entity, table=spread):
    """Shards by a field of the sort key, by a field of neither template, and by chance."""

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
    """The same after the number of shards has changed."""

    job_id: str
    due_at: datetime | None = None

    primary = PrimaryKey("JOB#{job_id}")
    by_due = AccessPattern("DUE", "{due_at}#{job_id}", shards=Shards(5, by="job_id"), index="gsi1")


class RespreadPause(Entity, table=respread, tag="Pause"):
    """Unchanged."""

    due_at: datetime

    primary = PrimaryKey("PAUSE#{due_at}")
    by_due = AccessPattern("DUE#0", "{due_at}", index="gsi1")


# --- table "beside"


class Receipt(Entity, table=beside):
    """Local indexes: one that every item is in, one that is sparse and shared, and a global one beside them."""

    shop: str
    number: Annotated[int, Field(ge=0, lt=10**6)]
    total: int = 0
    paid_by: str | None = None
    note: str = "n"

    primary = PrimaryKey("SHOP#{shop}", "RECEIPT#{number}")
    by_total = AccessPattern("SHOP#{shop}", "TOTAL#{total:desc}#{number}", local=True)
    by_payer = AccessPattern("SHOP#{shop}", "PAYER#{paid_by}", index="lsi2", local=True)
    by_note = AccessPattern("NOTE#{note}", "{number}")


class Voucher(Entity, table=beside):
    """Shares a local index."""

    shop: str
    code: str

    primary = PrimaryKey("SHOP#{shop}", "VOUCHER#{code}")
    by_code = AccessPattern("SHOP#{shop}", "CODE#{code}", index="lsi2", local=True)


# --- table "lean"


class Report(Entity, table=lean):
    """Indexes of keys alone, of some fields, of keys beside the items, and of keys in shards."""

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
