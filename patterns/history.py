"""The kept versions of `odm.patterns.versioned`, and how they are read."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, Generic, TypeVar

from attrs import frozen

from odm import BadValue, Entity, ItemNotFound, Query, Revision
from odm.extend import Calls, Companion, Gen, Procedure

E = TypeVar("E", bound=Entity)

LIFE: Final = "life_"
"""The field of a kept version that holds the life of its item."""

FIRST: Final = "0"
"""The life of an item that was stored before the history was declared."""


@frozen
class Kept(Generic[E]):
    """The compiled declaration of an entity whose versions are kept.

    Attributes:
        cls: the class of kept versions.
        number: the field with the version number.
        primary: the name of the entity's primary key.
        fields: the fields of a version's key, in order.
        keep: how many versions are kept; None: all.
    """

    entity: type[E]
    cls: type[Any]
    number: str
    primary: str
    fields: tuple[str, ...]
    keep: int | None

    def key(self, values: Mapping[str, Any]) -> Query[Any]:
        """The key of a version."""
        key: Query[Any] = self.cls.primary(**{name: values[name] for name in self.fields})
        return key

    def all(self, values: Mapping[str, Any], *, above: int) -> Query[Any]:
        """The versions of an item above a number, of any life."""
        query: Query[Any] = self.cls.primary(**{name: values[name] for name in self.fields[:-1]})
        return query.where(getattr(self.cls, self.number) > above)

    def number_of(self, item: Any) -> int:
        """The number of an item or a version; 0 for None."""
        return 0 if item is None else int(getattr(item, self.number))

    def gone(self, item: Any, *, newest: int) -> bool:
        """Whether the version of an item is no longer kept."""
        return self.keep is not None and self.number_of(item) <= newest - self.keep

    def goes(self, item: Any, life: str) -> list[Query[Any]]:
        """The key of the version that this one displaces, if any. Items from before the history may have version 0."""
        number = -1 if self.keep is None else self.number_of(item) - self.keep
        first = 0 if life == FIRST else 1
        return [self.key({**vars(item), self.number: number})] if number >= first else []

    def version(self, item: E, life: str) -> Any:
        """The version record of an item."""
        return self.cls.model_construct(**self._content(item), **{LIFE: life})

    def item(self, version: Any) -> E:
        """The item at a version."""
        return self.entity.model_construct(**self._content(version))

    def _content(self, item: Any) -> dict[str, Any]:
        return {name: getattr(item, name) for name in self.entity.model_fields}


class History(Generic[E]):
    """The versions of an entity's items: ``Document.history``."""

    def __init__(self, companion: Companion, entity: type[E], kept: partial[Kept[E]]) -> None:
        self._companion = companion
        self._entity = entity
        self._kept = kept  # set when the table compiles

    def __repr__(self) -> str:
        return f"{self._entity.__name__}.{self._companion.name}"

    @property
    def entity(self) -> type[E]:
        """The class of kept versions, for conditions: ``.where(Document.history.entity.version >= 3)``."""
        return self._kept().cls

    def __call__(self, **key: Any) -> Query[E]:
        """The query of the kept versions in order, including the newest.

        Its results are of the class `entity`. For type checkers it is that of the items, which has the same fields.

        Args:
            key: the key fields of the partition, and any leading fields of the sort key.
        """
        query: Query[E] = self._kept().cls.primary(**key)
        return query

    def version(self, number: int, /, **key: Any) -> Procedure[E | None]:
        """The item at a version, for ``db.get(...)``; None if the version is not kept or never existed.

        Args:
            number: the number of the version, 1 or more.
            key: the key fields.
        """
        return self._procedure(self._version, f"version({number}, {_text_of(key)})", number, key)

    def compare(self, first: int, second: int, /, **key: Any) -> Procedure[dict[str, tuple[Any, Any]]]:
        """The differences between two versions, for ``db.run(...)``: by field name, both values.

        Raises:
            ItemNotFound: one of the versions is not kept, or never existed.
        """
        return self._procedure(self._compare, f"compare({first}, {second}, {_text_of(key)})", (first, second), key)

    def revert(self, *, to: int, **key: Any) -> Procedure[E]:
        """Make a new version with the content of an old one, for ``db.run(...)``, which returns it.

        Raises:
            ItemNotFound: the old version is not kept, or never existed.
            Conflict: another writer changed the item meanwhile.
        """
        return self._procedure(self._revert, f"revert(to={to}, {_text_of(key)})", to, key)

    def _procedure(self, steps: Any, text: str, /, *args: Any) -> Procedure[Any]:
        text = f"{self!r}.{text}"
        return Procedure(partial(steps, text, *args), text)

    def _version(self, text: str, number: int, key: Mapping[str, Any], do: Calls) -> Gen[E | None]:
        _, (version,) = yield from self._read(do, text, key, (number,))
        return version

    def _compare(self, text: str, numbers: Sequence[int], key: Mapping[str, Any], do: Calls) -> Gen[dict[str, Any]]:
        _, versions = yield from self._read(do, text, key, numbers)
        first, second = (vars(_there(version, text)) for version in versions)
        fields = [name for name in self._entity.model_fields if name != self._kept().number]
        return {name: (first[name], second[name]) for name in fields if first[name] != second[name]}

    def _revert(self, text: str, to: int, key: Mapping[str, Any], do: Calls) -> Gen[E]:
        newest, (version,) = yield from self._read(do, text, key, (to,))
        content = dict(vars(_there(version, text)))
        del content[self._kept().number]
        return (yield from do.put(_there(newest, text).model_copy(update=content)))

    def _read(
        self, do: Calls, text: str, key: Mapping[str, Any], numbers: Sequence[int]
    ) -> Gen[tuple[E | None, list[E | None]]]:
        """The newest version, and those with these numbers. Reads the newest first: then the older ones are stored."""
        kept = self._kept()
        for number in numbers:
            if type(number) is not int or number < 1:
                raise BadValue(f"{text}: {number!r} is not a version number: give an int of 1 or more")
        newest, mark = yield from do.marked(self._companion, getattr(self._entity, kept.primary)(**key))
        last = kept.number_of(newest)
        older = [number for number in numbers if number < last]
        read = yield from do.get_many([kept.key({**key, kept.number: number}) for number in older])
        of_this_life = (stored if stored and stored.life_ == (mark or FIRST) else None for stored in read)
        by_number = {n: stored and kept.item(stored) for n, stored in zip(older, of_this_life, strict=True)}
        return newest, [newest if number == last else by_number.get(number) for number in numbers]


def fields_of(entity: type[Entity], number: str) -> dict[str, Any]:
    """The fields of a version: those of the entity with the number as a plain int, and the life."""
    fields: dict[str, Any] = {name: Annotated[info.annotation, info] for name, info in entity.model_fields.items()}
    others = [mark for mark in entity.model_fields[number].metadata if mark != Revision]
    return {**fields, number: Annotated[(int, *others)] if others else int, LIFE: str}


def _there(version: E | None, text: str) -> E:
    if version is None:
        raise ItemNotFound(f"{text}: there is no such version, or it is no longer kept")
    return version


def _text_of(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in key.items())
