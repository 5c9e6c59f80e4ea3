"""The page of a video: one partition holds the video, its counters and its comments, and one request loads the page.

With ``layout="row_per_partition"`` the partition is one row of Bigtable: the comments are columns of a family of their
own, newest first, and the video is deleted with all of them by a read and one mutation. On other backends the layout
has no effect, and the answers are the same.
"""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from odm import Backend, Counter, Entity, PrimaryKey, Store, Table, Unsupported, collection, increment
from odm.backends.bigtable import Bigtable
from odm.backends.local import LocalFile

videos = Table("videos", layout="row_per_partition")


class Video(Entity, table=videos):
    """A video; its counters rise without rewriting it."""

    video_id: str
    uploaded_at: datetime
    formats: dict[str, str]
    views: Annotated[int, Counter] = 0
    likes: Annotated[int, Counter] = 0

    primary = PrimaryKey("{video_id}", "ABOUT")


class Comment(Entity, table=videos, family="comments", keep=300):
    """A comment. The newest sorts first, and the oldest are removed when there are more than 300."""

    video_id: str
    at: datetime
    text: str

    primary = PrimaryKey("{video_id}", "COMMENT#{at:desc}")


def moment(text: str) -> datetime:
    """A time of 2023."""
    return datetime.fromisoformat(f"2023-{text}").replace(tzinfo=UTC)


STORAGE = "https://storage..."
VIDEOS = (
    Video(
        video_id="0123", uploaded_at=moment("09-10T15:21:48"), formats=dict.fromkeys(("480", "720", "1080p"), STORAGE)
    ),
    Video(video_id="0124", uploaded_at=moment("09-10T17:03:21"), formats=dict.fromkeys(("480", "720"), STORAGE)),
)
COUNTS = {"0123": (156, 3), "0124": (45, 0)}
"""Views and likes."""

COMMENTS = (
    ("0123", moment("09-10T19:01:15"), "I really like this. Special effects are awesome."),
    ("0123", moment("09-10T16:30:42"), "There's an audio glitch at 1:05."),
    ("0124", moment("10-12T07:08:51"), "The style reminds me of a director, but I can't put my finger on it."),
    ("0124", moment("10-11T08:00:00"), "I shared this with all my friends."),
)
SIZE = r"c:\xff"
PAGE = 3
"""Comments on the first page."""


def comments() -> Iterator[Comment]:
    """The comments."""
    for video_id, at, text in COMMENTS:
        yield Comment(video_id=video_id, at=at, text=text)


def fill(db: Store) -> None:
    """Store the videos and comments, and count the views and likes."""
    db.create()
    for video in VIDEOS:
        db.put(video)
        views, likes = COUNTS[video.video_id]
        db.update(video, increment(Video.views, views), increment(Video.likes, likes))
    for comment in comments():
        db.put(comment)


def page_of(db: Store, video_id: str) -> tuple[Video, list[Comment], str | None]:
    """The video with its newest comments, by one request, and the cursor of the next page."""
    page = db.page(collection(Video.primary(video_id=video_id)), size=1 + PAGE)
    video, *newest = page.items
    assert isinstance(video, Video)
    return video, [comment for comment in newest if isinstance(comment, Comment)], page.cursor


def main(backend: Backend) -> dict[str, list[str]]:
    """Load the page of a video, add many comments, page on through them, and delete it all."""
    with Store(videos, backend) as db:
        fill(db)
        with db.meter() as used:
            video, newest, more = page_of(db, "0123")
        assert more is None
        answers = {
            "requests for the page": [str(used.calls)],
            "the video": [f"{video.views} views", f"{video.likes} likes", *sorted(video.formats)],
            "its comments": [f"{comment.at:%m-%d %H:%M} {comment.text}" for comment in newest],
        }
        later = moment("12-01T00:00:00")
        with db.batch() as batch:
            for number in range(500):
                batch.put(Comment(video_id="0124", at=later + timedelta(minutes=number), text=f"Comment {number}"))
        db.put(Comment(video_id="0124", at=later + timedelta(minutes=500), text="Comment 500"))
        _, newest, cursor = page_of(db, "0124")
        everything = collection(Video.primary(video_id="0124"))
        further = db.page(everything, size=PAGE, after=cursor).items
        answers["the newest comments"] = [comment.text for comment in newest]
        answers["those on the next page"] = [comment.text for comment in further if isinstance(comment, Comment)]
        answers["comments that are kept"] = [str(db.count(Comment.primary(video_id="0124")))]
        db.delete_all(everything)
        answers["videos that are left"] = [found.video_id for found in db.scan(Video)]
        answers["comments that are left"] = [found.video_id for found in db.scan(Comment)]
    return answers


def row() -> list[str]:
    """The cells of the row of video 0123 on Bigtable, as ``cbt read`` prints them; this sends nothing.

    Without the cell to which every write adds its size.
    """
    with Store(videos, Bigtable("my-project", "my-instance")) as db:
        items = [VIDEOS[0], *(comment for comment in comments() if comment.video_id == "0123")]
        lines = [line for item in items for line in db.explain(item).stored.splitlines()[3:] if line]
        cells = zip(lines[::2], lines[1::2], strict=True)
        return [line for cell in cells if SIZE not in cell[0] for line in cell]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "videos.db"))).items():
            print(f"{question}: {', '.join(answer)}")
    with suppress(Unsupported):  # Google's client is not installed
        print("0123", *row(), sep="\n")
