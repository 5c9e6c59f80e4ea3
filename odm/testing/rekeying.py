"""Entities of the suite's moves to another primary key: each under its old key, and under the new one."""
# ruff: noqa: D101  # names say what they are

from datetime import datetime
from typing import Annotated

from odm import (
    AUTO,
    TTL,
    AccessPattern,
    Blob,
    Counter,
    CreatedAt,
    Entity,
    Id,
    LazyBytes,
    PrimaryKey,
    Revision,
    Table,
    UpdatedAt,
)
from odm.patterns.pointer import Pointer
from odm.patterns.unique import Unique
from odm.patterns.versioned import Versioned

clients, clients_now = Table("rekey-clients"), Table("rekey-clients")
tickets, tickets_now = Table("rekey-tickets"), Table("rekey-tickets")


class OldClient(Entity, table=clients, tag="Client"):
    team: str
    number: int
    email: str | None = None
    note: str = ""
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("CLIENT#{team}", "{number}")
    by_note = AccessPattern("NOTE#{note}", "{number}")
    newest = Pointer("NEWEST#{team}", tracks="number")
    unique_email = Unique("email")
    history = Versioned("KEPT#{team}#{number}", "v{version}")


class OldBadge(Entity, table=clients, tag="Badge"):
    name: str

    primary = PrimaryKey("BADGE#{name}", "x")


class Client(Entity, table=clients_now):
    """Has another primary key, and a name that the old class did not have."""

    team: str
    number: int
    email: str | None = None
    note: str = ""
    name: str = "unknown"
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("TEAM#{team}", "CLIENT#{number}")
    by_note = AccessPattern("NOTE#{note}", "{number}")
    newest = Pointer("NEWEST#{team}", tracks="number")
    unique_email = Unique("email")
    history = Versioned("KEPT#{team}#{number}", "v{version}")


class Badge(Entity, table=clients_now):
    name: str

    primary = PrimaryKey("BADGE#{name}", "x")


class OldTicket(Entity, table=tickets, tag="Ticket"):
    ticket_id: Annotated[str, Id()] = AUTO
    title: str
    scans: Annotated[int, Counter] = 0
    scan: Annotated[LazyBytes | None, Blob(over=10)] = None
    expires: Annotated[datetime | None, TTL] = None
    created: Annotated[datetime, CreatedAt] = AUTO
    updated: Annotated[datetime, UpdatedAt] = AUTO

    primary = PrimaryKey("T#{ticket_id}", "T")


class Ticket(Entity, table=tickets_now):
    """Has another primary key, and no companions, so that its items move concurrently."""

    ticket_id: Annotated[str, Id()] = AUTO
    title: str
    scans: Annotated[int, Counter] = 0
    scan: Annotated[LazyBytes | None, Blob(over=10)] = None
    expires: Annotated[datetime | None, TTL] = None
    created: Annotated[datetime, CreatedAt] = AUTO
    updated: Annotated[datetime, UpdatedAt] = AUTO

    primary = PrimaryKey("TICKET#{ticket_id}", "TICKET")
