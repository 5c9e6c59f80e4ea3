"""The requests for whole tables; `odm.protocol.requests` has them too, with all others."""

from collections.abc import Mapping
from typing import TypeAlias

from odm.expressions.nodes import Condition
from odm.immutable import Immutable


class Printed(Immutable):
    """Requests print without default values, so that `explain` can show them."""

    def __str__(self) -> str:
        names = self.__struct_fields__
        defaults = dict(zip(reversed(names), reversed(self.__struct_defaults__), strict=False))
        parts = []
        for name in names:
            value = getattr(self, name)
            if name not in self.__unprinted__ and value != defaults.get(name) and value not in ("", {}, None):
                parts.append(f"{name}={value if isinstance(value, Condition) else repr(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"


class CreateTables(Printed):
    """Create the table with its indexes; does not change what exists. Response: None.

    Raises BackendError if the models would not find items of a table that exists, as `odm.schema.evidence` judges.
    """


class DropTables(Printed):
    """Delete the table with all its items; no error if it does not exist. Response: None."""


class ListTables(Printed):
    """List the tables of the backend whose names begin with a text. Response: ``tuple[str, ...]``, in any order.

    The names are those that a schema has; tables of indexes, and others that belong to a table, may be among them.
    """

    beginning: str = ""


class AlterTables(Printed):
    """Change settings of the table that are not part of the models. Response: ``tuple[str, ...]``, a line for each.

    ``options``: of a type of one backend; every other backend, and one with such settings already, changes nothing.
    ``dry_run``: only report the changes. If the table does not exist, there are none.
    """

    options: object
    dry_run: bool = False


class TableIdentity(Immutable):
    """What distinguishes a table from all others.

    Attributes:
        parts: names and values, such as ``{"backend": "bigtable", "project": "p", "instance": "i", "table": "shop"}``.
            ``backend`` and ``table`` are always there; a part that the backend cannot know is absent.
        replicas: the parts under which the same table is known elsewhere, as a DynamoDB global table is.
        place: where the table is, for people; two tables may have the same.
    """

    parts: Mapping[str, str]
    replicas: tuple[Mapping[str, str], ...] = ()
    place: str = ""

    def is_of(self, parts: Mapping[str, str]) -> bool:
        """Whether these are the parts of this table; a part that only one side knows is not compared."""
        return any(
            all(own_parts[name] == parts[name] for name in own_parts.keys() & parts.keys())
            for own_parts in (self.parts, *self.replicas)
        )


class IdentifyTable(Printed):
    """Which table this is. Response: its `TableIdentity`.

    ``assign``: give a database an id if it has none and needs one.
    """

    assign: bool = False


class TableSize(Immutable):
    """How much a table holds. None: the backend does not know.

    Attributes:
        items: the number of its items.
        bytes: the bytes of its items.
        exact: False: the service counts now and then, or estimates.
    """

    items: int | None = None
    bytes: int | None = None
    exact: bool = True

    def __str__(self) -> str:
        items = None if self.items is None else f"{self.items:,} item{'s' * (self.items != 1)}"
        size = None if self.bytes is None else f"{self.bytes:,} bytes"
        known = ", ".join(filter(None, (items, size)))
        return f"{'about ' * (not self.exact)}{known}" if known else "an unknown number of items"


class MeasureTable(Printed):
    """How much the table holds. Response: its `TableSize`."""


AdminRequest: TypeAlias = CreateTables | DropTables | ListTables | AlterTables | IdentifyTable | MeasureTable
"""A request for whole tables."""
