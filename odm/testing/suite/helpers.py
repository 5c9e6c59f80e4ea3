"""Helpers that make data for the suite."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from odm import Entity, Page, Query, Store

E = TypeVar("E", bound=Entity)

PAST = datetime(2001, 2, 3, tzinfo=UTC)
FUTURE = datetime(2286, 1, 1, tzinfo=UTC)


def at(hour: int, minute: int = 0, second: int = 0, *, day: int = 1, micro: int = 0) -> datetime:
    """A time in January 2024."""
    return datetime(2024, 1, day, hour, minute, second, micro, tzinfo=UTC)


def days(number: int) -> timedelta:
    """So many days."""
    return timedelta(days=number)


def fill(db: Store, items: Iterable[E]) -> list[E]:
    """Put items, and return them as a list."""
    stored = list(items)
    with db.batch() as batch:
        for item in stored:
            batch.put(item)
    return stored


def walk(db: Store, query: Query[Any], size: int) -> list[list[Any]]:
    """The items of each page, up to the page without a cursor, after going back over them to the first page."""
    pages: list[Page[Any]] = [db.page(query, size=size)]
    while pages[-1].cursor is not None:
        pages.append(db.page(query, size=size, after=pages[-1].cursor))
    page = pages[-1]
    for number in reversed(range(len(pages) - 1)):
        assert page.previous is not None
        page = db.page(query, size=size, after=page.previous)
        assert page.items == pages[number].items, (query, size, number)
        assert page.cursor is not None
        assert db.page(query, size=size, after=page.cursor).items == pages[number + 1].items
    assert page.previous is None
    return [list(page.items) for page in pages]
