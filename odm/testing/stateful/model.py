"""`Model`: the expected items and answers of a store, as Python objects in a dict.

It has the write methods of `odm.Store`, but no keys, index entries or stored values: conditions and actions are Python
functions.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from odm import ConditionFailed, Conflict, Entity, ItemExists, ItemNotFound, OdmError, Query, TransactionFailed
from odm.extend import EntityView, SchemaView

Identity: TypeAlias = tuple[str, ...]


class Predicate(NamedTuple):
    """A condition: for odm, and as a function of an entity, or of None for an absent one."""

    condition: Any
    holds: Callable[[Any], bool]


class Change(NamedTuple):
    """An action on one field: for odm, and as a function of the entity that returns the field's new value."""

    field: str
    action: Any
    value: Callable[[Any], Any]
    bounds: tuple[float, float] | None = None


class Write(NamedTuple):
    """One write call, for a store, a transaction or a `Model`.

    Attributes:
        call: the method: put, insert, update, delete, or (only in a transaction) check.
        which: an entity or a key.
        options: further keyword arguments.
    """

    call: str
    which: Any
    changes: tuple[Change, ...] = ()
    when: Predicate | None = None
    options: dict[str, Any] = {}  # noqa: RUF012  # a NamedTuple's default; never changed

    def on(self, target: Any) -> Any:
        """Call the method of a store or transaction, with a copy of the entity."""
        which = self.which.model_copy(deep=True) if isinstance(self.which, Entity) else self.which
        when = {} if self.when is None else {"when": self.when.condition}
        actions = [change.action for change in self.changes]
        try:
            return _copied(getattr(target, self.call)(which, *actions, **when, **self.options))
        finally:
            _spoil(which)

    def on_model(self, model: "Model") -> Any:
        """Call the model's method."""
        return getattr(model, self.call)(self.which, *self.changes, when=self.when, **self.options)


def class_of(which: Any) -> type[Any]:
    """The class of an entity or key."""
    return which.entity if isinstance(which, Query) else type(which)


def _copied(answer: Any) -> Any:
    return answer.model_copy(deep=True) if isinstance(answer, Entity) else answer


def _spoil(which: Any) -> None:
    """Change the object that was passed: the stored item must not change with it."""
    for name in type(which).model_fields if isinstance(which, Entity) else ():
        value = getattr(which, name)
        if isinstance(value, list):
            value.append("spoilt")
        elif isinstance(value, set):
            value.add("spoilt")


class Model:
    """A table as a dict of entities.

    Attributes:
        stored: every item by identity, also expired ones.
    """

    def __init__(self, schema: SchemaView, clock: Callable[[], float]) -> None:
        self._schema = schema
        self._clock = clock
        self.stored: dict[Identity, Any] = {}
        self._untrimmed: list[Any] | None = None

    def identity(self, which: Any) -> Identity:
        """The identity of an item: its class and key fields."""
        entity, values = self._target(which)
        return (entity.tag, *(str(values[name]) for name in entity.primary.fields))

    def _target(self, which: Any) -> tuple[EntityView, Any]:
        if isinstance(which, Query):
            return self._schema.entity(which.entity), which.values
        return self._schema.entity(type(which)), vars(which)

    @property
    def living(self) -> list[Any]:
        """The items that have not expired."""
        return [item for item in self.stored.values() if not self._expired(item)]

    def find(self, which: Any) -> Any:
        """The item of an entity or key, or None."""
        item = self.stored.get(self.identity(which))
        return None if item is None or self._expired(item) else item

    def _expired(self, item: Any) -> bool:
        ttl = self._schema.entity(type(item)).ttl
        moment: datetime | None = None if ttl is None else getattr(item, ttl)
        return moment is not None and math.ceil(moment.timestamp()) <= int(self._clock())

    def put(self, entity: Any, *, when: Predicate | None = None) -> Any:
        old = self.find(entity)
        revision = self._revision(entity)
        if revision == 0 and old is not None:
            raise ItemExists("", old)
        _judge(when, old)
        if revision:
            self._check_revision(entity, old)
        return self._keep(entity, revision)

    def insert(self, entity: Any, *, when: Predicate | None = None) -> Any:
        assert when is None
        if (old := self.find(entity)) is not None:
            raise ItemExists("", old)
        return self._keep(entity, self._revision(entity))

    def update(
        self, which: Any, *changes: Change, when: Predicate | None = None, returning: str = "none", upsert: bool = False
    ) -> Any:
        old = self.find(which)
        entity, values = self._target(which)
        base = old
        if old is None:
            if not upsert or when is not None or self._revision(which):
                raise ItemNotFound("")
            cls: Any = which.entity if isinstance(which, Query) else type(which)
            base = cls(**{name: values[name] for name in entity.primary.fields})
        else:
            _judge(when, old)
            self._check_revision(which, old)
        new = base.model_copy(update={change.field: change.value(base) for change in changes}, deep=True)
        if any(bounds and not bounds[0] <= getattr(new, name) <= bounds[1] for name, _, _, bounds in changes):
            raise ConditionFailed("", old)
        new = self._keep(new, None if entity.revision is None else getattr(base, entity.revision))
        return {"none": None, "old": old, "new": new}[returning]

    def delete(self, which: Any, *, when: Predicate | None = None) -> bool:
        old = self.find(which)
        if old is None:
            return False
        _judge(when, old)
        self._check_revision(which, old)
        del self.stored[self.identity(which)]
        return True

    def check(self, which: Any, *, when: Predicate | None = None) -> None:
        _judge(when, self.find(which))

    def batch(self, writes: Iterable[Write]) -> None:
        """Puts and deletes; deletes remove expired items too."""
        with self._trimming_later():
            for write in writes:
                if write.call == "put":
                    self._keep(write.which, None)
                else:
                    self.stored.pop(self.identity(write.which), None)

    def transaction(self, writes: Sequence[Write]) -> None:
        """Apply all writes or none; the conditions are evaluated on the items before the transaction."""
        reasons = [self._reason(write) for write in writes]
        if any(reasons):
            raise TransactionFailed("", reasons)
        with self._trimming_later():
            for write in writes:
                write.on_model(self)

    @contextmanager
    def _trimming_later(self) -> Iterator[None]:
        """Inside of the block, items are not trimmed; at its end, all that were written are."""
        new: list[Any] = []
        self._untrimmed = new
        yield
        self._untrimmed = None
        for item in new:
            self._trim(item)

    def delete_all(self, matches: Callable[[Any], bool]) -> int:
        """Remove matching items, also expired ones."""
        gone = [identity for identity, item in self.stored.items() if matches(item)]
        for identity in gone:
            del self.stored[identity]
        return len(gone)

    def _reason(self, write: Write) -> OdmError | None:
        trial = Model(self._schema, self._clock)
        trial.stored = dict(self.stored)
        try:
            if write.call == "delete" and self.find(write.which) is None:  # its conditions count in a transaction
                _judge(write.when, None)
                self._check_revision(write.which, None)
            write.on_model(trial)
        except OdmError as error:
            return error
        return None

    def _revision(self, which: Any) -> int | None:
        """The revision that was read; None if it is not checked."""
        name = self._target(which)[0].revision
        return None if name is None or isinstance(which, Query) else getattr(which, name)

    def _check_revision(self, which: Any, old: Any) -> None:
        revision = self._revision(which)
        if revision is not None and (old is None or revision != self._revision(old)):
            raise Conflict("", old)

    def _keep(self, entity: Any, revision: int | None) -> Any:
        """Store a copy with its revision incremented."""
        schema = self._schema.entity(type(entity))
        counted = {} if schema.revision is None else {schema.revision: (revision or 0) + 1}
        new = entity.model_copy(update=counted, deep=True)
        self.stored[self.identity(new)] = new
        if self._untrimmed is None:
            self._trim(new)
        else:
            self._untrimmed.append(new)
        return new

    def _trim(self, new: Any) -> None:
        """Remove all but the newest ``keep`` items of the partition."""
        schema = self._schema.entity(type(new))
        primary = schema.primary
        sort = [name for name in primary.fields if name not in primary.partition_fields]
        if schema.keep is None or not sort:
            return
        partition = attrgetter(*primary.partition_fields)
        mine = [e for e in self.living if type(e) is type(new) and partition(e) == partition(new)]
        mine.sort(key=attrgetter(*sort))
        for item in mine[: -schema.keep]:
            del self.stored[self.identity(item)]


def _judge(when: Predicate | None, old: Any) -> None:
    if when is not None and not when.holds(old):
        raise ConditionFailed("", old)
