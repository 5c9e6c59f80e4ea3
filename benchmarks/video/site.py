"""The videos: one partition holds a video, its Counters and its comments, as in examples/video_page.py.

Every `Action` is a call of odm on a `Site`, which is a store. What an action needs (a cursor, a comment, a video with
all its comments) is made before it is measured.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from attrs import frozen

from odm import Backend, Counter, Entity, Page, PrimaryKey, Store, Table, collection, increment

Layout = Literal["row_per_item", "row_per_partition"]

SHOWN: Final = 25
"""Comments on a page."""

VIDEO: Final = "v0000"
START: Final = datetime(2026, 1, 5, tzinfo=UTC)


@frozen
class Models:
    """The table of one layout, and its entities."""

    table: Table
    video: type[Any]
    comment: type[Any]


def models(layout: Layout) -> Models:
    """The models; a table has one layout, so each layout has its own."""
    videos = Table("videos", layout=layout)

    class Video(Entity, table=videos):
        video_id: str
        title: str
        uploaded_at: datetime
        formats: dict[str, str]
        views: Annotated[int, Counter] = 0
        likes: Annotated[int, Counter] = 0

        primary = PrimaryKey("{video_id}", "ABOUT")

    class Comment(Entity, table=videos, family="comments"):
        video_id: str
        at: datetime
        author: str
        text: str

        primary = PrimaryKey("{video_id}", "COMMENT#{at:desc}")

    return Models(videos, Video, Comment)


class Site:
    """The videos on one backend.

    Args:
        backend: where they are stored.
        layout: of their table, on Bigtable.
        comments: how many each video has.
    """

    def __init__(self, backend: Backend, layout: Layout, comments: int) -> None:
        self.models = models(layout)
        self.comments = comments
        self.db = Store(self.models.table, backend)
        self._added: list[Any] = []
        self._filled = 0

    def key(self, video_id: str = VIDEO) -> Any:
        """The key of a video."""
        return self.models.video.primary(video_id=video_id)

    def comment(self, number: int, video_id: str = VIDEO) -> Any:
        """A comment; a higher number is newer."""
        text = f"Comment {number}: I really like this. The special effects are awesome, and so is the music."
        at = START + timedelta(seconds=number)
        return self.models.comment(video_id=video_id, at=at, author=f"user-{number % 97:04}", text=text)

    def fill(self, video_id: str) -> str:
        """Store a video with its comments."""
        formats = {name: f"https://storage.example/{video_id}/{name}.mp4" for name in ("480", "720", "1080p")}
        with self.db.batch() as batch:
            batch.put(self.models.video(video_id=video_id, title="Effects", uploaded_at=START, formats=formats))
            for number in range(self.comments):
                batch.put(self.comment(number, video_id))
        return video_id

    def check(self) -> None:
        """See that every action does what it should, before anything is measured."""
        page = self.load(self.fill(VIDEO))
        newest = [self.comment(self.comments - 1 - number) for number in range(min(self.comments, 2 * SHOWN))]
        further = self.more(page.cursor) if page.cursor else []
        assert [self.key(page.items[0].video_id), *page.items[1:], *further] == [self.key(), *newest]
        self.view(self.key())
        assert self.load(VIDEO).items[0].views == 1
        self.delete(self.fill("other"))
        assert self.db.count(collection(self.key("other"))) == 0
        assert self.db.count(collection(self.key())) == 1 + self.comments

    def load(self, video_id: str) -> Page[Any]:
        """The video with its Counters and its newest comments."""
        return self.db.page(collection(self.key(video_id)), size=1 + SHOWN)

    def more(self, cursor: str) -> Sequence[Any]:
        """The comments that follow."""
        return self.db.page(collection(self.key()), size=SHOWN, after=cursor).items

    def add(self, comment: Any) -> None:
        """Add a comment."""
        self.db.put(comment)

    def view(self, key: Any) -> None:
        """Count a view."""
        self.db.update(key, increment(self.models.video.views, 1))

    def delete(self, video_id: str) -> None:
        """Delete a video with all its comments."""
        self.db.delete_all(collection(self.key(video_id)))

    def new_comments(self, count: int) -> Sequence[Any]:
        """Comments to add. Those that were added before are deleted, so that the video does not grow."""
        with self.db.batch() as batch:
            for comment in self._added:
                batch.delete(comment)
        self._added = [self.comment(self.comments + number) for number in range(count)]
        return self._added

    def new_videos(self, count: int) -> Sequence[str]:
        """Videos to delete."""
        self._filled += count
        return [self.fill(f"d{self._filled - number:04}") for number in range(count)]


@frozen
class Action:
    """What is measured.

    Attributes:
        name: as the tables show it; ``{}`` is the number of comments.
        call: does it, with one argument.
        arguments: makes so many arguments.
    """

    name: str
    call: Callable[[Site, Any], Any]
    arguments: Callable[[Site, int], Sequence[Any]]


ACTIONS: Final[Mapping[str, Action]] = {
    "load": Action(
        f"load the video, its counters and the newest {SHOWN} of {{}} comments",
        Site.load,
        lambda site, count: [VIDEO] * count,
    ),
    "more": Action(
        f"the next {SHOWN} of {{}} comments", Site.more, lambda site, count: [site.load(VIDEO).cursor] * count
    ),
    "add": Action("add a comment to {}", Site.add, Site.new_comments),
    "view": Action("count a view, with {} comments", Site.view, lambda site, count: [site.key()] * count),
    "delete": Action("delete the video and its {} comments", Site.delete, Site.new_videos),
}
