"""Songs of a month from a change feed: downloads are stored as they come, and the totals follow them.

The program that stores a download knows nothing of totals: one write, as fast as it is. A follower reads the change
feed and keeps the downloads and bytes of each song and month. It stops in the middle and begins again, it sees changes
twice, and the totals are those of a recount.

Here the feed is the change log of the bundled engine. With ``DynamoDB(stream="new_and_old_images")`` or
``Bigtable(stream=timedelta(days=1))`` the same follower reads theirs, and on AWS a Lambda function can take its place:
``handler = odm.backends.dynamodb.streams.handler(feed)``.
"""

import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Annotated

from pydantic import Field

from odm import AccessPattern, Entity, PrimaryKey, Store, Table
from odm.backends.local import LocalFile
from odm.changes import Change, Removed
from odm.patterns.aggregate import Aggregate, count, total
from odm.patterns.feed import Feed
from odm.patterns.follower import Follower, Positions, positions

music = Table("music_from_feed")


class Download(Entity, table=music):
    """Somebody has downloaded a song."""

    download_id: str
    song_id: str
    at: datetime
    size: int

    primary = PrimaryKey("DOWNLOAD#{download_id}")


class Month(Entity, table=music):
    """The downloads of a song in a month."""

    song_id: str
    month: str
    downloads: Annotated[int, Field(ge=0, lt=10**10)] = 0
    size: int = 0

    primary = PrimaryKey("SONG#{song_id}", "MONTH#{month}")
    top = AccessPattern("TOP#{month}", "{downloads:desc}#{song_id}")


songs_by_month = Aggregate(
    Month,
    Download,
    lambda download: {"song_id": download.song_id, "month": f"{download.at:%Y-%m}"},
    downloads=count(),
    size=total("size"),
)


def some_downloads(number: int) -> list[Download]:
    """Downloads of five songs in May and June."""
    random = Random(1)
    return [
        Download(
            download_id=f"d{n}",
            song_id=random.choice(["air", "hit", "hit", "jig", "ode"]),
            at=datetime(2026, 5, 1, tzinfo=UTC) + timedelta(hours=random.randrange(60 * 24)),
            size=random.randrange(1000, 9000),
        )
        for n in range(number)
    ]


def main() -> dict[str, list[str]]:
    """Store and remove downloads while a follower comes and goes; compare the totals with a recount."""
    removed: list[str] = []
    feed = Feed(music)
    with tempfile.TemporaryDirectory() as folder:
        backend = LocalFile(Path(folder, "music.db"), changes=True)
        with Store(music, backend) as db, Store(positions, backend) as state:
            db.create()
            state.create()

            @feed.on(Download)
            def note(change: Change[Download]) -> None:
                if isinstance(change, Removed):
                    removed.append(change.key[0])

            @feed.on_many(Download)
            def keep(changes: list[Change[Download]]) -> None:
                db.run(songs_by_month.apply(changes))

            downloads = some_downloads(300)
            with db.batch() as batch:
                for download in downloads:
                    batch.put(download)
            Follower(db, feed, state=state, name="months", size=40).poll()  # and the program ends

            for download in downloads[:20]:  # these were fraud
                db.delete(download)
            state.delete(Positions, name="months")  # an accident: it begins again, and sees changes twice
            Follower(db, feed, state=state, name="months").drain()

            recount = Counter(f"{found.song_id} {found.at:%Y-%m}" for found in db.scan(Download))
            kept = {f"{month.song_id} {month.month}": month.downloads for month in db.scan(Month)}
            top = [f"{month.song_id} {month.downloads}" for month in db.query(Month.top(month="2026-05").limit(3))]
    assert kept == dict(recount)
    assert sum(kept.values()) == 280
    return {"top of May": top, "removed": [str(len(removed))]}


if __name__ == "__main__":
    for question, answer in main().items():
        print(f"{question}: {', '.join(answer)}")
