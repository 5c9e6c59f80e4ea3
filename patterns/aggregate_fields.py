"""The fields of an `odm.patterns.aggregate.Aggregate`, how each is computed, and the classes of its members."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any

from attrs import define, field, frozen

from odm import TTL, Entity, PrimaryKey, Query, Revision, SchemaError
from odm.extend import Companion, primary_key


@frozen
class Kind:
    """How a field of an aggregate is computed: `count`, `total`, `highest`, `lowest` or `top`.

    Attributes:
        field: the field of the items; None: it counts them.
        most: of a ranking, how many values it has; None: one, which is not in a list.
        lowest: the ranking begins with the lowest value.
        show: of a ranking, the field of the items whose values it has.
    """

    field: str | None = None
    most: int | None = None
    lowest: bool = False
    show: str | None = None


def count() -> Kind:
    """The number of items."""
    return Kind()


def total(field: str) -> Kind:
    """The sum of a field of int or Decimal; None counts as 0."""
    return Kind(field)


def highest(field: str) -> Kind:
    """The highest value of a field, or None; needs a Revision."""
    return Kind(field, show=field)


def lowest(field: str) -> Kind:
    """The lowest value of a field, or None; needs a Revision."""
    return Kind(field, lowest=True, show=field)


def top(number: int, field: str, *, show: str, lowest: bool = False) -> Kind:
    """A list of the field ``show`` of the items with the highest values of a field; needs a Revision."""
    return Kind(field, number, lowest, show)


def check(into: type[Entity], of: type[Entity], fields: Mapping[str, Kind]) -> None:
    """Check a declaration.

    Raises:
        SchemaError: a field does not exist or does not have the type, or a Revision is missing.
    """
    said = f"Aggregate({into.__name__}, {of.__name__})"
    if into.__odm_table__ is None or of.__odm_table__ is None:
        raise SchemaError(f"{said}: both classes need table=")
    if not fields:
        raise SchemaError(f"{said}: say what to keep, as in downloads=count()")
    for name, kind in fields.items():
        if name not in into.model_fields or name in primary_key(into).fields:
            raise SchemaError(f"{said}: {into.__name__} has no field {name!r}, outside of its key, to keep")
        for used in filter(None, (kind.field, kind.show)):
            if used not in of.model_fields:
                raise SchemaError(f"{said}, {name}: {of.__name__} has no field {used!r}")
        if kind.most is not None and (type(kind.most) is not int or kind.most < 1):
            raise SchemaError(f"{said}, {name}: top({kind.most!r}, ...): give a number of 1 or more")
        if kind.field is not None and kind.show is None and float in _types(of, kind.field):
            raise SchemaError(f"{said}, {name}: a sum of floats depends on their order: use int or Decimal")
        if kind.show is not None and not any(Revision in info.metadata for info in into.model_fields.values()):
            raise SchemaError(f"{said}, {name}: a ranking needs a Revision: add revision: Annotated[int, Revision] = 0")


def _types(entity: type[Entity], name: str) -> set[Any]:
    kind = entity.model_fields[name].annotation
    return {kind, *getattr(kind, "__args__", ())}


def member_class(into: type[Entity], of: type[Entity], fields: Mapping[str, Kind]) -> Any:
    """The class of members; its values of fields may be None."""
    maker = _maker(of)
    keys = maker.copies(into, primary_key(into).fields)
    used = {f"value_{name}": kind.field for name, kind in fields.items() if kind.field is not None}
    used |= {f"shown_{name}": kind.show for name, kind in fields.items() if kind.show is not None}
    types = maker.copies(of, set(used.values()))
    member_fields: dict[str, Any] = {
        "item": str,
        "order": str,
        "counted": bool,
        # pyright knows | only of types, and Annotated has it as well at run time.
        "until": (Annotated[datetime, TTL] | None, None),  # pyright: ignore[reportOperatorIssue]
    }
    member_fields |= {f"key_{name}": (kind | None, None) for name, kind in keys.items()}
    member_fields |= {name: (types[source] | None, None) for name, source in used.items()}
    primary = PrimaryKey(f"AGGREGATE#{into.__odm_tag__}.{maker.name}#{{item}}")
    return maker.make(into, Entity, member_fields, {"primary": primary})


def ranking_class(into: type[Entity], of: type[Entity], name: str, kind: Kind) -> Any:
    """The class of the entries of a ranking, in the order of their values."""
    assert kind.field is not None
    assert kind.show is not None
    maker = _maker(of)
    types = maker.copies(of, {kind.field, kind.show})
    fields = {"group": str, "value": types[kind.field], "item": str, "shown": (types[kind.show] | None, None)}
    primary = PrimaryKey(f"RANKED#{into.__odm_tag__}.{maker.name}.{name}#{{group}}", "{value}#{item}")
    return maker.make(into, Entity, fields, {"primary": primary}, name)


def _maker(of: type[Entity]) -> Companion:
    maker = Companion()
    maker.name = of.__name__
    return maker


@define
class Group:
    """What changes in one group: its key, the differences of its counts and sums, and of its rankings.

    ``ranked`` has for each ranking the entries that change, by value and item: None removes one.
    """

    key: dict[str, Any]
    query: Query[Any]
    sums: dict[str, Any] = field(factory=lambda: defaultdict(int))
    ranked: dict[str, dict[tuple[Any, str], Any]] = field(factory=lambda: defaultdict(dict))

    @property
    def id(self) -> str:
        return digest(str(self.query))


def digest(text: str) -> str:
    """A text of fixed length in place of another one."""
    return blake2b(text.encode(), digest_size=16).hexdigest()
