"""Ids and times that the store assigns: tickets of a help desk, sorted by their ids, which are sorted by time.

The keys of a ticket are ``QUEUE#billing`` and its id, such as ``01KE7FM3QG...``. Those of a comment are ``COMMENTS#``
with the id of its ticket, and its own id.
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from odm import (
    AUTO,
    AccessPattern,
    Backend,
    CreatedAt,
    Entity,
    Id,
    PrimaryKey,
    Store,
    Table,
    UpdatedAt,
    set_,
)
from odm.backends.local import LocalFile
from odm.testing import Clock

desk = Table("help-desk")


class Ticket(Entity, table=desk):
    """A ticket; the index has those of a queue by the time of their last change."""

    queue: str
    ticket_id: Annotated[str, Id()] = AUTO
    title: str
    state: str = "open"
    created_at: Annotated[datetime, CreatedAt] = AUTO
    updated_at: Annotated[datetime, UpdatedAt] = AUTO

    primary = PrimaryKey("QUEUE#{queue}", "{ticket_id}")
    by_change = AccessPattern("CHANGED#{queue}", "{updated_at:desc}")


class Comment(Entity, table=desk):
    """A comment on a ticket, with an id of its own."""

    ticket_id: str
    comment_id: Annotated[str, Id()] = AUTO
    text: str

    primary = PrimaryKey("COMMENTS#{ticket_id}", "{comment_id}")


def main(backend: Backend, clock: Clock | None = None) -> dict[str, list[str]]:
    """Open tickets, comment on them, and ask for them; ``clock`` stands still between the writes."""
    clock = clock or Clock(datetime(2026, 1, 5, 9, tzinfo=UTC))
    with Store(desk, backend, clock=clock) as db:
        db.create()
        db.delete_all(Ticket.primary(queue="billing"))  # of an earlier run
        first = db.put(Ticket(queue="billing", title="No invoice"))
        second = db.put(Ticket(queue="billing", title="Paid twice"))  # in the same millisecond
        clock.advance(timedelta(minutes=10))
        third = Ticket(queue="billing", ticket_id=db.new_id(Ticket), title="Wrong address")
        with db.batch() as batch:  # the comments need the id before the ticket is stored
            batch.put(third)
            for text in ("It is the old one", "Fixed"):
                batch.put(Comment(ticket_id=third.ticket_id, text=text))
        clock.advance(timedelta(minutes=10))
        closed = db.update(first, set_(Ticket.state, "closed"), returning="new")
        tickets = db.query(Ticket.primary(queue="billing"))
        comments = db.query(Comment.primary(ticket_id=third.ticket_id))
        answers = {
            "in the order of their ids": [ticket.title for ticket in tickets],
            "by last change": [ticket.title for ticket in db.query(Ticket.by_change(queue="billing").limit(2))],
            "open for": [f"{(closed.updated_at - closed.created_at) / timedelta(minutes=1):.0f} minutes"],
            "comments": [comment.text for comment in comments],
        }
        assert first.ticket_id < second.ticket_id < third.ticket_id
    assert answers == {
        "in the order of their ids": ["No invoice", "Paid twice", "Wrong address"],
        "by last change": ["No invoice", "Wrong address"],
        "open for": ["20 minutes"],
        "comments": ["It is the old one", "Fixed"],
    }
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "desk.db"))).items():
            print(f"{question}: {', '.join(answer)}")
