"""What a derivation reads, and what it makes of it: for `odm.patterns.derive` and `odm.beam`.

| given | read by | parts |
|---|---|---|
| an entity class, or a query that no key serves | pages of a scan, with the conditions as their filter | several |
| a query with the key of a partition | pages of the query, of this partition only | one |

A cursor is text that any process can continue from.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from attrs import frozen

from odm import BadValue, Entity, NoAccessPattern, Page, Query, select
from odm.extend import Calls, Gen, procedure
from odm.results import RawItem

E = TypeVar("E", bound=Entity)

Make: TypeAlias = Callable[[E], Entity | Iterable[Entity] | None]
"""Makes the entities that are derived from an item: one, several or none."""


def query_of(source: object) -> Query[Any]:
    """The query of an entity class; another argument as it is."""
    if isinstance(source, type) and issubclass(source, Entity):
        return select(source)
    if not isinstance(source, Query):
        raise BadValue(f"derive from {source!r}: give an entity class, or a query such as Order.by_date(...)")
    return source


def _is_served(do: Calls, query: Query[Any]) -> bool:
    """Whether a key serves a query, so that it is not a scan."""
    try:
        do.page(query).close()
    except NoAccessPattern:
        return False
    return True


@procedure
def begin(do: Calls, query: Query[Any], parallel: int) -> Gen[list[str]]:
    """The cursors at which the parts of a query begin.

    Raises:
        BadValue: a scan has no order or limit.
    """
    if _is_served(do, query):
        return [""]
    if query != Query(query.entity, conditions=query.conditions):
        raise BadValue(f"{query}: without the key of a partition it is a scan in parts, which has no order or limit")
    return (yield from do.parts(parallel))


@procedure
def entities(do: Calls, query: Query[Any], cursor: str, size: int) -> Gen[Page[tuple[Entity, str]]]:
    """A page of a query: each item with its key as text."""
    source_page: Page[Any]
    if _is_served(do, query):
        source_page = yield from do.page(query, after=cursor or None, size=size)
        items = source_page.items
    else:
        source_page = yield from do.scan_page(cursor, size=size, where=query)
        items = [item.entity for item in source_page.items]
    return Page([(item, _text(item, *do.key_of(item))) for item in items], source_page.cursor)


def _text(entity: Entity, partition: str, sort: str) -> str:
    return f"{type(entity).__name__} {partition}" + (f" {sort}" if sort else "")


@frozen
class Rule:
    """What to make of an item.

    Attributes:
        make: makes the entities of an item; None: the item itself.
        makes: the queries of the entities that it may make; empty: any.
    """

    make: Make[Any] | None = None
    makes: Sequence[Query[Any]] = ()

    def of(self, item: Entity, name: str) -> list[Entity]:
        """The entities that are derived from an item.

        Args:
            item: the item.
            name: its name, for messages.

        Raises:
            BadValue: something else was made.
        """
        answer: Any = item if self.make is None else self.make(item)
        if answer is None:
            return []
        derived_items = (
            [answer] if isinstance(answer, Entity) else list(answer) if isinstance(answer, Iterable) else [answer]
        )
        known = tuple(query.entity for query in self.makes)
        for entity in derived_items:
            if not isinstance(entity, Entity):
                raise BadValue(f"make({name}) returned {entity!r}: return an entity, several in a list, or None")
            if known and type(entity) not in known:
                names = ", ".join(entity.__name__ for entity in known)
                raise BadValue(f"make({name}) returned a {type(entity).__name__}, but makes= has only {names}: add it")
        return derived_items


@procedure
def raw_items(do: Calls, derivations: Sequence[tuple[Entity, str]]) -> Gen[list[tuple[RawItem, str]]]:
    """The items that the target would store, each with the name of its source; runs on the target.

    Raises:
        BadValue: an entity cannot be written in a batch, or two of the entities have the same key.
    """
    yield from ()
    named_items = [(do.raw_item(entity), name) for entity, name in derivations]
    once(named_items, {})
    return named_items


def once(items: Iterable[tuple[RawItem, str]], seen: dict[tuple[str, str], str]) -> None:
    """Record items by their key; raises BadValue if two of them have the same."""
    for item, name in items:
        key = (item.partition, item.sort)
        if key in seen:
            raise repeated(text_of(item), [seen[key], name])
        seen[key] = name


def text_of(item: RawItem) -> str:
    """The entity and the key of an item."""
    return _text(item.entity, item.partition, item.sort)


def repeated(item: str, sources: Sequence[str]) -> BadValue:
    """The error for two derived items with one key."""
    both = " and ".join(sources) if sources[0] != sources[1] else f"{sources[0]} twice"
    return BadValue(
        f"two derived items have the key {item}, made of {both}: one would "
        "replace the other; put a field that differs into the key, or make one item of both"
    )
