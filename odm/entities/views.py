"""What patterns and tools may know of a compiled table: a read-only view of its schema.

The compiled schema has these names (`odm.schema.model`), and more that may change; type checkers hold those who are
handed a view to these.
"""

from collections.abc import Collection, Mapping
from typing import Any, Protocol


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
        """The fields of which the key does not keep the whole value in every place."""
        ...

    def key_text(self, field: str, value: Any) -> str:
        """How a value of a field is written where the field first appears in the templates.

        Raises:
            KeyValueError: the value cannot be part of a key, or the field is in neither template.
        """
        ...


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
        """The field that is the Revision."""
        ...

    @property
    def ttl(self) -> str | None:
        """The field that is the TTL."""
        ...

    def validate(self, field: str, value: Any) -> Any:
        """A value as this field would hold it: coerced and checked as by the model.

        Raises:
            BadValue: it does not validate.
        """
        ...

    def check_ordered(self, field: str) -> None:
        """Refuse a field whose stored values have no order among them.

        Raises:
            BadValue: its type has no order, or it is of several types.
        """
        ...

    def ordered_by(self, field: str, among: Collection[str]) -> tuple[PatternView, bool] | None:
        """The pattern that has all items with given values in the order of a field.

        Args:
            field: in whose order, from one end or the other.
            among: the fields that are given, and not None, as the one in whose order is not.

        Returns:
            The pattern, and whether the highest is first in it; None: there is none.
        """
        ...


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
