"""`keep`: only the newest items of a partition are kept."""
# ruff: noqa: D101  # a test's name says what it shows

import pytest

from odm import OdmError, Store, set_
from odm.protocol import requests as req
from odm.testing.capabilities import needs
from odm.testing.evolving import Comment, Highscore, Notice, Post, kept, kept_indexed
from odm.testing.stores import Stores
from odm.testing.suite.helpers import FUTURE, PAST, fill


def comment(number: int, post: str = "p") -> Comment:
    """A comment on a post."""
    return Comment(post_id=post, number=number)


def numbers(db: Store, post: str = "p") -> list[int]:
    """The stored comments on a post."""
    return [c.number for c in db.query(Comment.primary(post_id=post))]


class TestKeep:
    def test_the_newest_stay(self, stores: Stores) -> None:
        db = stores.open(kept)
        db.put(Post(post_id="p"))
        for number in (5, 1, 3, 4, 9):
            assert db.put(comment(number)) == comment(number)
        assert numbers(db) == [4, 5, 9]
        assert db.get(Post, post_id="p") == Post(post_id="p")

    def test_one_that_is_too_old_goes_at_once(self, stores: Stores) -> None:
        db = stores.open(kept)
        fill(db, [comment(number) for number in (4, 5, 6)])
        assert db.put(comment(1)) == comment(1)
        assert numbers(db) == [4, 5, 6]

    @needs("transactions")
    def test_transactions_trim(self, stores: Stores) -> None:
        db = stores.open(kept)
        fill(db, [comment(number) for number in (4, 5, 6)])
        with db.transaction() as tx:
            tx.put(comment(7))
            tx.insert(comment(8))
            tx.put(Post(post_id="p"))
        assert numbers(db) == [6, 7, 8]

    def test_putting_one_again_takes_none_away(self, stores: Stores) -> None:
        db = stores.open(kept)
        fill(db, [comment(number) for number in (4, 5, 6)])
        db.put(comment(4))
        assert numbers(db) == [4, 5, 6]

    def test_counts_partitions_apart(self, stores: Stores) -> None:
        db = stores.open(kept)
        fill(db, [comment(number, post) for number in range(5) for post in ("a", "b")])
        assert numbers(db, "a") == numbers(db, "b") == [2, 3, 4]

    def test_the_newest_come_first_where_the_sort_key_descends(self, stores: Stores) -> None:
        db = stores.open(kept)
        for points in (10, 30, 20, 40, 5):
            db.put(Highscore(game="g", points=points))
        assert [score.points for score in db.query(Highscore.primary(game="g"))] == [40, 30]

    def test_a_batch_is_trimmed_when_it_is_sent(self, stores: Stores) -> None:
        db = stores.open(kept)
        with db.batch() as batch:
            for number in range(9):
                batch.put(comment(number))
                batch.put(Highscore(game="g", points=number))
            batch.delete(comment(8))
        assert numbers(db) == [5, 6, 7]
        assert db.count(Highscore.primary(game="g")) == 2

    def test_nothing_is_removed_below_the_limit(self, stores: Stores) -> None:
        db = stores.open(kept)
        stores.forget()
        for number in range(3):
            db.put(comment(number))
        assert not any(isinstance(request, req.BatchWrite | req.Delete) for request in stores.requests)
        assert all(request.count for request in stores.requests[:3] if isinstance(request, req.Query))

    def test_expired_items_do_not_count(self, stores: Stores) -> None:
        db = stores.open(kept)
        db.put(Comment(post_id="p", number=9, expires_at=PAST))
        for number in range(4):
            db.put(Comment(post_id="p", number=number, expires_at=FUTURE))
        assert numbers(db) == [1, 2, 3]

    @needs("conditions")
    def test_inserts_are_trimmed(self, stores: Stores) -> None:
        db = stores.open(kept)
        for number in range(4):
            db.insert(comment(number))
        assert numbers(db) == [1, 2, 3]
        with pytest.raises(OdmError):
            db.insert(comment(2))

    @needs("updates", "conditions")
    def test_upserts_are_trimmed(self, stores: Stores) -> None:
        db = stores.open(kept)
        for number in range(4):
            key = Comment.primary(post_id="p", number=number)
            assert db.update(key, set_(Comment.text, "x"), upsert=True, returning="new").text == "x"
        db.update(comment(2), set_(Comment.text, "y"))
        assert numbers(db) == [1, 2, 3]

    @needs("indexes")
    def test_index_entries_go_with_the_item(self, stores: Stores) -> None:
        db = stores.open(kept_indexed)
        for number in range(4):
            db.put(Notice(board="b", number=number))
        assert [notice.number for notice in db.query(Notice.by_topic(topic="t"))] == [2, 3]

    def test_explain_reports_it(self, stores: Stores) -> None:
        db = stores.offline(kept)
        assert "the newest 3 items" in str(db.explain(comment(1)))
        assert "newest" not in str(db.explain(Highscore(game="g", points=1), write="delete"))
        assert "newest" not in str(db.explain(Post(post_id="p")))
