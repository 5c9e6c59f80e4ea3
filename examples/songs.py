"""Songs by month: each download is counted when it happens, and a sparse index has the top songs of a month.

Counting at read time would read every download. So each song has one item per month with its number of downloads (a
materialized aggregate), and songs with enough downloads are in `top`, most downloaded first. A very popular song is
counted in shards, and their sum is written to its item periodically.
"""

import tempfile
from pathlib import Path
from typing import Annotated

from pydantic import Field

from odm import AccessPattern, Backend, Counter, Entity, PrimaryKey, Query, Store, Table, field, increment, set_
from odm.backends.local import LocalFile
from odm.patterns.sharded_counter import ShardedCounter

music = Table("music")


class Month(Entity, table=music):
    """How often a song was downloaded in a month."""

    song_id: str
    month: str
    downloads: Annotated[int, Field(ge=0, lt=10**10)] = 0

    primary = PrimaryKey("SONG#{song_id}", "MONTH#{month}")
    top = AccessPattern("TOP#{month}", "{downloads:desc}#{song_id}", when=field("downloads") >= 3)


class Downloads(Entity, table=music):
    """A shard of a hit's downloads."""

    song_id: str
    month: str
    shard: Annotated[int, Field(ge=0, lt=100)] = 0
    count: Annotated[int, Counter] = 0

    primary = PrimaryKey("DOWNLOADS#{shard}#{song_id}#{month}")


hits = ShardedCounter(Downloads, shards=8)


def download(db: Store, song_id: str, month: str) -> None:
    """Count one, in one write that moves the song in the ranking too."""
    db.update(Month.primary(song_id=song_id, month=month), increment(Month.downloads), upsert=True)


def sum_up(db: Store, song_id: str, month: str) -> None:
    """Write the sum of a hit's shards to its item: run it every minute, say."""
    total = db.run(hits.total(song_id=song_id, month=month))
    db.update(Month.primary(song_id=song_id, month=month), set_(Month.downloads, total), upsert=True)


def main(backend: Backend) -> dict[str, list[str]]:
    """Download some songs, one of them a hit, and ask for the top of May and for one song over the months."""
    with Store(music, backend) as db:
        db.drop()  # or a second run would count on
        db.create()
        for song_id, times in (("ode", 4), ("air", 2), ("jig", 5)):
            for _ in range(times):
                download(db, song_id, "2026-05")
        download(db, "jig", "2026-06")
        for _ in range(20):
            db.run(hits.add(song_id="hit", month="2026-05"))
        sum_up(db, "hit", "2026-05")

        def shown(query: Query[Month]) -> list[str]:
            return [f"{found.song_id} {found.month} {found.downloads}" for found in db.query(query)]

        answers = {
            "top of May": shown(Month.top(month="2026-05").limit(10)),
            "jig by month": shown(Month.primary(song_id="jig")),
        }
    assert answers == {
        "top of May": ["hit 2026-05 20", "jig 2026-05 5", "ode 2026-05 4"],  # air is not in the index
        "jig by month": ["jig 2026-05 5", "jig 2026-06 1"],
    }
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "music.db"))).items():
            print(f"{question}: {', '.join(answer)}")
