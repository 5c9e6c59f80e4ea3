"""A Lambda function on a table's stream: it keeps a SQL table in sync, and archives expired items.

Lambda delivers each change at least once, in the order of the writes to its item. So changes are applied idempotently:
a row stores the order of its last change, and only later changes replace it. At the first change that fails, the
function stops and reports it, and Lambda delivers that change and the following ones again.
"""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from odm import TTL, Entity, PrimaryKey, Table
from odm.backends.dynamodb import streams
from odm.changes import Change, Removed

library = Table("library")
log = logging.getLogger(__name__)


class Loan(Entity, table=library):
    """A loan of a book; it expires."""

    reader: str
    book: str
    due: Annotated[datetime, TTL]
    renewals: int = 0

    primary = PrimaryKey("READER#{reader}", "LOAN#{book}")


class Reader(Entity, table=library):
    """Somebody who may borrow books."""

    reader: str
    name: str

    primary = PrimaryKey("READER#{reader}", "PROFILE")


SQL = """
create table if not exists loans (reader, book, due, renewals, gone, position, primary key (reader, book));
create table if not exists readers (reader primary key, name, gone, position);
create table if not exists overdue (reader, book, due, primary key (reader, book, due));
"""
UPSERT_LOAN = """
insert into loans values (?, ?, ?, ?, ?, ?) on conflict do update set due = excluded.due,
renewals = excluded.renewals, gone = excluded.gone, position = excluded.position where excluded.position > position
"""
UPSERT_READER = """
insert into readers values (?, ?, ?, ?) on conflict do update set name = excluded.name, gone = excluded.gone,
position = excluded.position where excluded.position > position
"""

database = sqlite3.connect(":memory:")  # made once for all calls of a warm function
database.executescript(SQL)


class Follower:
    """What `streams.handler` delivers the changes to."""

    table = library

    def deliver(self, changes: Sequence[Change[Any]]) -> int | None:
        """Follow changes up to the first one that fails, and return its index."""
        for index, change in enumerate(changes):
            try:
                with database:  # a transaction
                    follow(change)
            except Exception:
                log.exception("a change was not followed")
                return index
        return None


def follow(change: Change[Any]) -> None:
    """Apply one change (NEW_AND_OLD_IMAGES). A deleted row leaves a tombstone, so that no older change restores it."""
    gone = isinstance(change, Removed)
    match change.old if gone else change.new:
        case Loan() as loan:
            row = (loan.reader, loan.book, loan.due.isoformat(), loan.renewals, gone, change.order)
            database.execute(UPSERT_LOAN, row)
            if change.expired:
                database.execute("insert or ignore into overdue values (?, ?, ?)", row[:3])
            if "due" in change.changed:
                log.info("%s has %s until %s", loan.reader, loan.book, loan.due)
        case Reader() as reader:
            database.execute(UPSERT_READER, (reader.reader, reader.name, gone, change.order))


handler = streams.handler(Follower())
"""The function. Its event source mapping has ``FunctionResponseTypes=["ReportBatchItemFailures"]``."""


# What Lambda sends: Ann borrows two books and renews one; the other expires, and DynamoDB removes it some time later.
KEY = {"pk": {"S": "READER#ann"}}
EMMA: dict[str, Any] = {**KEY, "sk": {"S": "LOAN#Emma"}}
ULYSSES: dict[str, Any] = {**KEY, "sk": {"S": "LOAN#Ulysses"}}


def loan(key: Mapping[str, Any], book: str, day: int, renewals: int = 0) -> dict[str, Any]:
    """A stored loan until a day of May 2026."""
    due = datetime.fromisoformat(f"2026-05-{day:02}T12:00:00+00:00")
    return {
        **key,
        "_t": {"S": "Loan"},
        "_ttl": {"N": str(int(due.timestamp()))},
        "reader": {"S": "ann"},
        "book": {"S": book},
        "due": {"S": f"2026-05-{day:02}T12:00:00.000000Z"},
        "renewals": {"N": str(renewals)},
    }


def record(number: int, kind: str, key: Mapping[str, Any], **images: Mapping[str, Any]) -> dict[str, Any]:
    """One record of an event."""
    return {
        "eventID": str(number),
        "eventName": kind,
        "eventSource": "aws:dynamodb",
        "eventSourceARN": "arn:aws:dynamodb:eu-west-1:123456789012:table/library/stream/2026-05-01T00:00:00.000",
        "dynamodb": {
            "ApproximateCreationDateTime": 1777900000.0 + number,
            "Keys": key,
            "SequenceNumber": f"{44215845 * 10**20 + number}",
            "StreamViewType": "NEW_AND_OLD_IMAGES",
            **images,
        },
    }


PROFILE = {**KEY, "sk": {"S": "PROFILE"}}
EVENT: dict[str, Any] = {
    "Records": [
        record(
            1,
            "INSERT",
            PROFILE,
            NewImage={**PROFILE, "_t": {"S": "Reader"}, "reader": {"S": "ann"}, "name": {"S": "Ann"}},
        ),
        record(2, "INSERT", EMMA, NewImage=loan(EMMA, "Emma", 10)),
        record(3, "INSERT", ULYSSES, NewImage=loan(ULYSSES, "Ulysses", 10)),
        record(4, "MODIFY", EMMA, OldImage=loan(EMMA, "Emma", 10), NewImage=loan(EMMA, "Emma", 24, 1)),
        record(5, "REMOVE", ULYSSES, OldImage=loan(ULYSSES, "Ulysses", 10))
        | {"userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"}},
    ]
}
BROKEN = record(6, "INSERT", EMMA, NewImage={**loan(EMMA, "Emma", 10), "renewals": {"S": "many"}})


def main() -> dict[str, Any]:
    """Handle the event twice, as Lambda may, and then one with a record that does not fit its model."""
    failures = [handler(EVENT, None), handler(EVENT, None), handler({"Records": [EVENT["Records"][0], BROKEN]}, None)]
    return {
        "readers": database.execute("select reader, name from readers where not gone").fetchall(),
        "loans": database.execute("select book, due, renewals from loans where not gone").fetchall(),
        "overdue": database.execute("select reader, book from overdue").fetchall(),
        "failures": [failure["batchItemFailures"] for failure in failures],
    }


if __name__ == "__main__":
    logging.getLogger("odm").addHandler(logging.NullHandler())  # the record that fails on purpose need not be logged
    for question, answer in main().items():
        print(f"{question}: {answer}")
