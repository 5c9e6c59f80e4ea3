"""Bulk load: a file sorted by user is written to the partitions of all users in turn.

In sorted order, each request would go to one partition, which has only a part of the table's capacity.
`odm.patterns.bulk_load` spreads the load over all partitions.
"""

import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from odm import Backend, Entity, PrimaryKey, Store, Table, collection
from odm.backends.local import LocalFile
from odm.patterns.bulk_load import bulk_load, spread

messages = Table("bulk-load")


class Message(Entity, table=messages):
    """A message, in its user's partition."""

    user: str
    message_id: str
    text: str = ""

    primary = PrimaryKey("USER#{user}", "MESSAGE#{message_id}")


def export() -> Iterator[Message]:
    """The export of the old system, as a generator: 40 users, one after the other, with 25 messages each."""
    for user in range(40):
        for number in range(25):
            yield Message(user=f"u{user:02}", message_id=f"m{number:02}", text="hello")


def longest_run(users: Iterator[str]) -> int:
    """The longest run of messages of one user."""
    return max(len(list(run)) for _, run in groupby(users))


def main(backend: Backend) -> dict[str, list[str]]:
    """Load the export, and check in which order it was written."""
    with Store(messages, backend) as db:
        db.create()
        with db.meter() as meter:
            loaded = db.run(bulk_load(export()))
        assert loaded == 1000
        assert meter.calls < 100  # many items a request
        sorted_run = longest_run(message.user for message in export())
        spread_run = longest_run(message.user for message in spread(export(), lambda one: db.key_of(one)[0]))
        assert (sorted_run, spread_run) == (25, 1)
        first = [message.user for message, _ in zip(spread(export(), lambda one: one.user), range(4), strict=False)]
        return {
            "messages in a row of one user, as exported": [str(sorted_run)],
            "messages in a row of one user, as written": [str(spread_run)],
            "the first that are written": first,
            "messages of user 7": [str(db.count(collection(Message.primary(user="u07"))))],
        }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "messages.db"))).items():
            print(f"{question}: {', '.join(answer)}")
