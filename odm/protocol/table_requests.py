"""The requests for whole tables; `odm.protocol.requests` has them too, with all others."""

from typing import TypeAlias, cast

from attrs import AttrsInstance, fields, frozen

from odm.expressions.nodes import Condition


class Printed:
    """Requests print without default values, so that `explain` can show them."""

    __slots__ = ()

    def __str__(self) -> str:
        parts = []
        for attribute in fields(cast("type[AttrsInstance]", type(self))):
            value = getattr(self, attribute.name)
            if attribute.repr and value != attribute.default and value not in ("", {}, None):
                parts.append(f"{attribute.name}={value if isinstance(value, Condition) else repr(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"


@frozen
class CreateTables(Printed):
    """Create the table with its indexes; does not change what exists. Response: None."""


@frozen
class DropTables(Printed):
    """Delete the table with all its items; no error if it does not exist. Response: None."""


@frozen
class ListTables(Printed):
    """List the tables of the backend whose names begin with a text. Response: ``tuple[str, ...]``, in any order.

    The names are those that a schema has; tables of indexes, and others that belong to a table, may be among them.
    """

    beginning: str = ""


@frozen
class AlterTables(Printed):
    """Change settings of the table that are not part of the models. Response: ``tuple[str, ...]``, a line for each.

    ``options``: of a type of one backend; every other backend, and one with such settings already, changes nothing.
    ``dry_run``: only report the changes. If the table does not exist, there are none.
    """

    options: object
    dry_run: bool = False


AdminRequest: TypeAlias = CreateTables | DropTables | ListTables | AlterTables
"""A request for whole tables."""
