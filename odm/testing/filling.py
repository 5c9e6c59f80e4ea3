"""Entities of the suite's backfills: each in the form in which it is stored, and in that of a later deployment."""
# ruff: noqa: D101  # names say what they are

from datetime import datetime
from typing import Annotated, Any

from odm import TTL, AccessPattern, Entity, PrimaryKey, Revision, Table, field, upgrade
from odm.patterns.pointer import Pointer
from odm.patterns.unique import Unique
from odm.patterns.versioned import Versioned

jobs, jobs_now = Table("backfill-jobs"), Table("backfill-jobs")
members, members_now = Table("backfill-members"), Table("backfill-members")
pages, pages_now = Table("backfill-pages"), Table("backfill-pages")


class OldJob(Entity, table=jobs, tag="Job"):
    job_id: str
    state: str | None = "new"
    note: str = ""
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("JOB#{job_id}")
    by_note = AccessPattern("NOTE#{note}", "{job_id}", when=field("note") != "")


class Machine(Entity, table=jobs):
    name: str

    primary = PrimaryKey("MACHINE#{name}")


class Job(Entity, table=jobs_now):
    """Has a new access pattern."""

    job_id: str
    state: str | None = "new"
    note: str = ""
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("JOB#{job_id}")
    by_note = AccessPattern("NOTE#{note}", "{job_id}", when=field("note") != "")
    by_state = AccessPattern("STATE#{state}", "{job_id}")


class MachineNow(Entity, table=jobs_now, tag="Machine"):
    name: str

    primary = PrimaryKey("MACHINE#{name}")


class OldMember(Entity, table=members, tag="Member"):
    team: str
    number: int
    email: str | None = None
    note: str = ""

    primary = PrimaryKey("TEAM#{team}", "MEMBER#{number}")


class Member(Entity, table=members_now):
    """Has a pointer to the newest member of a team, and a unique address."""

    team: str
    number: int
    email: str | None = None
    note: str = ""

    primary = PrimaryKey("TEAM#{team}", "MEMBER#{number}")
    newest = Pointer("NEWEST#{team}", tracks="number")
    unique_email = Unique("email")


class OldSheet(Entity, table=pages, tag="Sheet"):
    sheet_id: str
    name: str
    expires: datetime | None = None

    primary = PrimaryKey("SHEET#{sheet_id}")


class Sheet(Entity, table=pages_now, version=2):
    """Has two names, a pattern by one of them, and expires."""

    sheet_id: str
    first: str
    last: str = ""
    color: str = "white"
    expires: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("SHEET#{sheet_id}")
    by_last = AccessPattern("LAST#{last}", "{sheet_id}", when=field("last") != "")

    @upgrade(from_=1)
    @staticmethod
    def split_name(item: dict[str, Any]) -> dict[str, Any]:
        """Version 1 had one name, and nobody whose name was a question mark."""
        if item["name"] == "?":
            raise ValueError("nobody knows")
        first, _, last = item.pop("name").partition(" ")
        return {**item, "first": first, "last": last}


class OldText(Entity, table=pages, tag="Text"):
    text_id: str
    body: str
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("TEXT#{text_id}", "v0")


class Text(Entity, table=pages_now):
    """Keeps its versions."""

    text_id: str
    body: str
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("TEXT#{text_id}", "v0")
    history = Versioned("TEXT#{text_id}", "v{version}")
