"""An entity in a column family of its own, whose items Bigtable deletes by age: all calls answer as for any other."""
# ruff: noqa: D101  # a test's name says what it shows

from typing import Annotated

import pytest
from pydantic import Field

from odm import (
    AccessPattern,
    Columns,
    ConditionFailed,
    Entity,
    ItemExists,
    MaxAge,
    MaxVersions,
    PrimaryKey,
    Revision,
    Store,
    Table,
    add_to,
    append,
    remove,
    set_,
)
from odm.testing.stores import Stores

board = Table("board")


class Post(Entity, table=board, family="posts", gc=MaxAge(days=90) | MaxVersions(3)):
    """Deleted by its age, with an index, columns and a Revision."""

    forum: str
    number: int
    text: str = ""
    mood: str | None = None
    words: list[str] = Field(default_factory=list)
    tags: Annotated[set[str], Columns] = Field(default_factory=set)
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("FORUM#{forum}", "POST#{number}")
    by_mood = AccessPattern("MOOD#{mood}", "{forum}#{number}")


class Forum(Entity, table=board):
    """In the same partition, and in the usual family."""

    forum: str
    name: str = ""

    primary = PrimaryKey("FORUM#{forum}", "FORUM")


KEY = Post.primary(forum="f", number=1)


@pytest.fixture
def posts(stores: Stores) -> Store:
    """A forum with three posts."""
    db = stores.open(board)
    with db.batch() as batch:
        batch.put(Forum(forum="f", name="odm"))
    for number in (1, 2, 3):
        text = "a" if number < 3 else ""
        db.insert(Post(forum="f", number=number, text=text, mood="calm", tags={"x", "y"}, words=["b"]))
    return db


class TestFamilies:
    def test_an_item_reads_back_after_any_update(self, posts: Store) -> None:
        read = posts.one(KEY)
        assert read == Post(forum="f", number=1, text="a", mood="calm", tags={"x", "y"}, words=["b"], version=1)
        posts.update(KEY, set_(Post.text, "c"), when=Post.mood == "calm")
        posts.update(KEY, append(Post.words, "d"))
        posts.update(KEY, add_to(Post.tags, "z"))
        updated = posts.update(KEY, remove(Post.mood), returning="new")
        expected = Post(forum="f", number=1, text="c", tags={"x", "y", "z"}, words=["b", "d"], version=5)
        assert updated == posts.one(KEY) == expected
        with pytest.raises(ConditionFailed):
            posts.update(KEY, set_(Post.text, "e"), when=Post.text == "a")
        with pytest.raises(ItemExists):
            posts.insert(Post(forum="f", number=1))

    def test_index_entries_follow(self, posts: Store) -> None:
        assert [post.number for post in posts.query(Post.by_mood(mood="calm"))] == [1, 2, 3]
        posts.update(KEY, set_(Post.mood, "cross"))
        posts.delete(Post, forum="f", number=2)
        assert [post.number for post in posts.query(Post.by_mood(mood="calm"))] == [3]
        assert [post.number for post in posts.query(Post.by_mood(mood="cross"))] == [1]

    def test_queries_and_deletes_see_only_its_items(self, posts: Store) -> None:
        query = Post.primary(forum="f")
        assert [post.number for post in posts.query(query.reverse())] == [3, 2, 1]
        assert posts.count(query.where(Post.text == "a")) == 2
        assert len(list(posts.scan(Post))) == 3
        posts.delete_all(query)
        assert posts.count(query) == 0
        assert posts.one(Forum, forum="f").name == "odm"
