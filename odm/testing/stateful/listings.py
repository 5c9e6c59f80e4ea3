"""A query of each pattern for each partition that the machine writes to, with its expected results in order."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace as evolve

from odm import collection
from odm.testing.stateful.entities import Locked, Note, Task
from odm.testing.stateful.model import Predicate
from odm.testing.stateful.strategies import PROJECTS, STATUSES


class Listing(Struct, frozen=True):
    """A query, and its equivalent in Python.

    Attributes:
        matches: whether an item is a result.
        order: the sort key of the results, different for each item.
    """

    query: Any
    matches: Callable[[Any], bool]
    order: Callable[[Any], Any]
    descending: bool = False
    most: int | None = None

    def where(self, test: Predicate) -> "Listing":
        """This listing with one more condition."""
        return evolve(
            self, query=self.query.where(test.condition), matches=lambda item: self.matches(item) and test.holds(item)
        )

    def reversed(self) -> "Listing":
        """This listing in reverse order."""
        return evolve(self, query=self.query.reverse(), descending=not self.descending)

    def limited(self, most: int) -> "Listing":
        """This listing with at most so many results."""
        return evolve(self, query=self.query.limit(most), most=most)

    def results(self, items: Sequence[Any]) -> list[Any]:
        """The expected results of the query on these items."""
        matching = sorted(filter(self.matches, items), key=self.order, reverse=self.descending)
        return matching[: self.most]

    def behind(self, items: Sequence[Any], last: Any, most: int | None) -> list[Any]:
        """The results after an item that may be deleted or changed by now; ``last`` is its `order`."""
        matching = evolve(self, most=None).results(items)
        going = [item for item in matching if (self.order(item) < last if self.descending else self.order(item) > last)]
        return going[:most]


def _tasks(query: Any, order: Callable[[Any], Any], **values: Any) -> Listing:
    return _of(Task, query, order, **values)


def _of(cls: type, query: Any, order: Callable[[Any], Any], **values: Any) -> Listing:
    def matches(item: Any) -> bool:
        return type(item) is cls and all(getattr(item, name) == value for name, value in values.items())

    return Listing(query, matches, order)


def _only(listing: Listing, test: Callable[[Any], bool]) -> Listing:
    return evolve(listing, matches=lambda item: listing.matches(item) and test(item))


def _stored_order(item: Any) -> Any:
    return (0, item.number) if isinstance(item, Note) else (1, item.name)


def _whole(project: str) -> Listing:
    query = collection(Task.primary(project=project))
    return Listing(query, lambda item: getattr(item, "project", None) == project, _stored_order)


LISTINGS: list[Listing] = [
    *(_tasks(Task.primary(project=project), attrgetter("name"), project=project) for project in PROJECTS),
    *(_tasks(Task.by_status(status=s), attrgetter("level", "name", "project"), status=s) for s in STATUSES),
    _only(_tasks(Task.due_ones(), attrgetter("due", "project", "name")), lambda task: task.due is not None),
    *(
        _only(_tasks(Task.hard(project=project), attrgetter("name"), project=project), lambda task: task.level > 6)
        for project in PROJECTS
    ),
    *(_tasks(Task.by_stock(project=p), attrgetter("stock", "name"), project=p) for p in PROJECTS),
    _tasks(Task.spread(), attrgetter("project", "name")),
    *(_tasks(Task.spread().where(Task.level == n), attrgetter("project", "name"), level=n) for n in (0, 9)),
    *(
        _only(
            _tasks(Task.scattered(status=s), attrgetter("due", "project", "name"), status=s),
            lambda task: task.due is not None,
        )
        for s in STATUSES
    ),
    *(_of(Locked, Locked.by_status(status=s), attrgetter("name"), status=s) for s in STATUSES),
    *(_of(Note, Note.primary(project=project), attrgetter("number"), project=project) for project in PROJECTS),
    _of(Note, Note.newest(), lambda note: (-note.number, note.project)),
    *map(_whole, PROJECTS),
]
OF_TASKS = [listing for listing in LISTINGS if listing.query.entity is Task and listing.query.scope == "entity"]
"""The listings that can have a condition on a `Task`."""
LONG = [listing for listing in LISTINGS if listing.query.entity is Note or listing.query.scope != "entity"]
"""The listings with more than a few items."""
