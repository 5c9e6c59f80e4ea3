"""Helpers that make data for the suite."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from odm.entities.entity import Entity
from odm.stores.sync import Store

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
