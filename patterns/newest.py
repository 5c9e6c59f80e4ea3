"""The copies of `odm.patterns.current`: how they are read, compared with the newest item, and repaired."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar

from odm import BackendError, ConditionFailed, Entity, Query, Unsupported, missing
from odm.extend import Calls, Companion, Gen, PatternView, Procedure, compiled

E = TypeVar("E", bound=Entity)
R = TypeVar("R")

ATTEMPTS: Final = 10
"""How often a copy is written again because its item or the newest item has changed meanwhile."""


class Newest(Generic[E]):
    """The value of ``Metric.current``: call it with the fields of the copy's key for a procedure that gets the copy.

    Attributes:
        entity: the class of copies, for conditions of ``all``; set when the table compiles.
        own: the primary key of the entity.
        by: the field whose highest value is the newest.
        others: the other fields of the entity's primary key.
        pattern: the pattern that finds the newest item, and whether that item is its first; None: no such pattern.
    """

    entity: type[Any]
    own: Any
    by: str
    others: tuple[str, ...] = ()
    pattern: tuple[PatternView, bool] | None = None

    def __init__(self, current: Companion, entity: type[E], advice: Callable[[], str]) -> None:
        self._current = current
        self._entity = entity
        self._advice = advice

    def __repr__(self) -> str:
        return f"{self._entity.__name__}.{self._current.name}"

    def __call__(self, **key: Any) -> Procedure[E | None]:
        """The newest item, for ``db.get(...)`` or ``db.one(...)``; None: there was none.

        Args:
            key: the fields of the copy's key.

        Raises:
            BadValue: a field is missing, unknown or does not validate.
        """
        return self._procedure(self._get, "", key)

    def all(self, **key: Any) -> Query[E]:
        """The query of the copies of one partition: the newest of each. Its items are of `entity`."""
        compiled(self._entity)
        query: Query[E] = self.entity.primary(**key)
        return query

    def refresh(self, **key: Any) -> Procedure[E | None]:
        """Set the copy to the newest item that exists, for ``db.run(...)``, which returns it; None: it is deleted.

        Raises:
            Unsupported: no pattern sorts the items by time.
        """
        return self._procedure(self._refresh, ".refresh", key)

    def copy(self, item: Any) -> Any:
        """The copy of an item."""
        return self.entity.model_construct(**{name: getattr(item, name) for name in self.entity.model_fields})

    def forward(self, item: Any) -> Any:
        """The condition for replacing the stored copy: it is of an earlier item, or of this one."""
        by = getattr(self.entity, self.by)
        return missing(by) | (by < getattr(item, self.by)) | self._is_of(item)

    def _is_of(self, item: Any) -> Any:
        """The condition that the stored copy is of this item."""
        same = getattr(self.entity, self.by) == getattr(item, self.by)
        for name in self.others:
            same = same & (getattr(self.entity, name) == getattr(item, name))
        return same

    def follow(self, do: Calls, key: Query[Any], item: Any) -> Gen[Any]:
        """Copy an item without a transaction; another writer may change it meanwhile, and write its copy earlier.

        So it is read again after its copy was written. The last writer of the copy then finds the newest content.
        """
        for _ in range(ATTEMPTS):
            yield from do.put(self.copy(item), when=self.forward(item))
            stored = yield from do.get(key)
            if stored is None or self.copy(stored) == self.copy(item):
                break
            item = stored
        return item

    def _procedure(
        self, steps: Callable[[Query[Any], Calls], Gen[R]], of: str, arguments: dict[str, Any]
    ) -> Procedure[R]:
        entity = compiled(self._entity)
        known = {
            name: entity.validate(name, arguments[name]) for name in arguments.keys() & self._entity.model_fields.keys()
        }
        key: Query[Any] = self.entity.primary(**{**arguments, **known})
        return Procedure(partial(steps, key), f"{self!r}{of}({str(key).partition('(')[2]}")

    def _item(self, copy: Any) -> Any:
        return self._entity.model_construct(**{name: getattr(copy, name) for name in self.entity.model_fields})

    def _own_key(self, copy: Any) -> Query[Any]:
        values = {name: getattr(copy, name) for name in self.own.fields}
        key: Query[Any] = getattr(self._entity, self.own.name)(**values)
        return key

    def _get(self, key: Query[Any], do: Calls) -> Gen[E | None]:
        copy = yield from do.get(key)
        if not do.transactions:
            newest = yield from do.first(self._newest(key, copy))
            if newest is not None and (copy is None or self.copy(newest) != copy):
                same = copy is not None and getattr(copy, self.by) == getattr(newest, self.by)
                item = (yield from do.get(self._own_key(copy))) if same else newest
                if item is not None and (copy is None or self.copy(item) != copy):
                    with suppress(ConditionFailed):  # another writer was faster, with a newer one
                        stored: E = yield from self.follow(do, self._own_key(item), item)
                        return stored
                    copy = yield from do.get(key)
        return None if copy is None else self._item(copy)

    def _refresh(self, key: Query[Any], do: Calls) -> Gen[E | None]:
        if self.pattern is None:
            raise Unsupported(f"{self!r}.refresh: no pattern finds the newest item: {self._advice()}")
        for _ in range(ATTEMPTS):
            copy = yield from do.get(key)
            newest: E | None = yield from do.first(self._newest(key, None))
            if newest is not None and copy is not None and self.copy(newest) == copy:
                return newest
            if newest is None and copy is None:
                return None
            # The condition is what was read: another writer's copy stays, and the next attempt reads it.
            unchanged = missing(getattr(self.entity, self.by)) if copy is None else self._is_of(copy)
            with suppress(ConditionFailed):
                if newest is None:
                    yield from do.delete(key, when=unchanged)
                else:
                    yield from do.put(self.copy(newest), when=unchanged)
        raise BackendError(f"{self!r}.refresh: other writers kept changing the copy: call it again")

    def _newest(self, key: Query[Any], copy: Any) -> Query[E]:
        """The query that finds the newest item, at or above the copied one."""
        assert self.pattern is not None  # checked when the store connected
        (pattern, descending), values = self.pattern, key.values
        partition = {name: values[name] for name in pattern.partition_fields}
        rest = [getattr(self._entity, name) == values[name] for name in values if name not in partition]
        if copy is not None:
            rest.append(getattr(self._entity, self.by) >= getattr(copy, self.by))
        query: Query[E] = getattr(self._entity, pattern.name)(**partition).where(*rest)
        return query if descending else query.reverse()
