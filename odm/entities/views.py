"""A read-only view of a compiled schema, for patterns and tools.

The compiled schema (`odm.schema.model`) has these names and others that may change; type checkers allow only these on
a view.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

from odm._published import public_in


@public_in("odm.extend")
class PatternView(Protocol):
    """A primary key or an access pattern, compiled."""

    @property
    def name(self) -> str:
        """The attribute name in the class."""
        ...

    @property
    def index(self) -> str | None:
        """The name of the secondary index; None for the primary key."""
        ...

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of both templates, each once, partition first."""
        ...

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """The fields of the partition template."""
        ...

    @property
    def lossy(self) -> frozenset[str]:
        """The fields whose whole value is not kept everywhere in the key."""
        ...

    def key_text(self, field: str, value: Any) -> str:
        """The text of a value of a field where the field first appears in the templates.

        Raises:
            KeyValueError: the value cannot be part of a key, or the field is in neither template.
        """
        ...


@public_in("odm.extend")
class EntityView(Protocol):
    """An entity, compiled."""

    @property
    def tag(self) -> str:
        """The stored name."""
        ...

    @property
    def primary(self) -> PatternView:
        """The primary key."""
        ...

    @property
    def patterns(self) -> Mapping[str, PatternView]:
        """The access patterns by name."""
        ...

    @property
    def revision(self) -> str | None:
        """The field with the Revision marker, or None."""
        ...

    @property
    def ttl(self) -> str | None:
        """The field with the TTL marker, or None."""
        ...

    @property
    def keep(self) -> int | None:
        """How many items of a partition are kept, the newest ones (``keep=`` of `odm.Entity`); None: all."""
        ...

    def validate(self, field: str, value: Any) -> Any:
        """A value converted and validated as by the model.

        Raises:
            BadValue: the value does not validate.
        """
        ...

    def check_ordered(self, field: str) -> None:
        """Raise if the stored values of a field have no order.

        Raises:
            BadValue: its type has no order, or it has several types.
        """
        ...

    def ordered_by(self, field: str, among: Collection[str]) -> tuple[PatternView, bool] | None:
        """The pattern that sorts all items with the given values by a field.

        Args:
            field: the field to sort by, ascending or descending.
            among: the fields whose values are given; none of them, nor ``field``, is None.

        Returns:
            The pattern, and whether the highest value is first; None: there is no such pattern.
        """
        ...


@public_in("odm.extend")
class PlanView(Protocol):
    """How a query will be answered."""

    @property
    def pattern(self) -> PatternView:
        """The primary key or access pattern that it reads."""
        ...

    @property
    def order(self) -> tuple[str, bool] | None:
        """The field by which the results are sorted, and whether its highest value is first; None: at most one key.

        It is the first field of the pattern that has not one value.
        """
        ...

    def bounds(self, field: str) -> Sequence[tuple[Literal["<", "<=", ">", ">=", "prefix"], Any]]:
        """The values and conditions on a field that limit it, such as ``(">=", january)``; all of them hold.

        A value of a pattern call limits it on both sides. Where the key has only its unit, such as the day, it stands
        for the whole unit.
        """
        ...


@public_in("odm.extend")
class SchemaView(Protocol):
    """A table, compiled."""

    @property
    def name(self) -> str:
        """The name of the table."""
        ...

    def entity(self, cls: type) -> EntityView:
        """The compiled entity of a class.

        Raises:
            SchemaError: the class is not an entity of this table.
        """
        ...
