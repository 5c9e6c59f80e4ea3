"""Field references: ``Order.total`` on the class, ``Order.address.city``, ``Order.lines[0]``, ``field("status")``.

A reference has no public attributes of its own: every attribute access is a longer path. Comparing one makes a
condition. `path_of` is how the rest of odm looks inside.
"""

from typing import NoReturn

from odm.errors import brief
from odm.expressions.nodes import Comparator, Compare, Condition, Const, Operand, Path, Size

_INSTEAD = {
    "add": "add_to({0}, ...)",
    "append": "append({0}, ...)",
    "asc": "a query, whose results are in the order of the sort key",
    "begins_with": "starts_with({0}, ...)",
    "between": "between({0}, ...)",
    "contains": "contains({0}, ...)",
    "desc": "query.reverse(), as results are in the order of the sort key",
    "discard": "discard_from({0}, ...)",
    "does_not_exist": "missing({0})",
    "eq": "{0} == value",
    "exists": "exists({0})",
    "gt": "{0} > value",
    "gte": "{0} >= value",
    "in_": "is_in({0}, ...)",
    "is_": "{0} == value",
    "is_in": "is_in({0}, ...)",
    "is_null": "{0} == None, or missing({0})",
    "like": "starts_with({0}, ...) or contains({0}, ...)",
    "lt": "{0} < value",
    "lte": "{0} <= value",
    "ne": "{0} != value",
    "not_exists": "missing({0})",
    "remove": "remove({0})",
    "set": "set_({0}, value)",
    "startswith": "starts_with({0}, ...)",
}
"""What to write instead of methods of these names."""


class _Comparable:
    """Comparisons that make conditions instead of truth values."""

    __slots__ = ("_odm_operand",)
    _odm_operand: Path | Size
    __hash__ = None  # type: ignore[assignment]  # == makes a condition, so a hash would lie

    def __init__(self, operand: Path | Size) -> None:
        object.__setattr__(self, "_odm_operand", operand)

    def __reduce__(self) -> tuple[type, tuple[Path | Size]]:  # attributes cannot be set, so copies are built again
        return type(self), (self._odm_operand,)

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return self._odm_compare("=", other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return self._odm_compare("<>", other)

    def __lt__(self, other: object) -> Condition:
        return self._odm_compare("<", other)

    def __le__(self, other: object) -> Condition:
        return self._odm_compare("<=", other)

    def __gt__(self, other: object) -> Condition:
        return self._odm_compare(">", other)

    def __ge__(self, other: object) -> Condition:
        return self._odm_compare(">=", other)

    def _odm_compare(self, op: Comparator, other: object) -> Condition:
        operand = operand_of(other)
        if other is None:
            path_of(self)  # a size is never None
        return Compare(op, self._odm_operand, operand)

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} is a reference to a field and has no truth value: compare it, or use exists(...)")


class SizeReference(_Comparable):
    """What ``size(field)`` gives: compare it with a number."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self._odm_operand)


class Reference(_Comparable):
    """A path to a value of an entity, for conditions and actions."""

    __slots__ = ()
    __iter__ = None

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError(f"{self!r} is a reference to a field, not its value: write contains({self!r}, {brief(value)})")

    def __call__(self, *_: object, **__: object) -> NoReturn:
        *above, last = path_of(self).segments
        instead = _INSTEAD.get(str(last)) if above else None
        if instead is None:
            raise TypeError(f"{self!r} is a reference to a field, not its value, and cannot be called")
        field = repr(Reference(Path(tuple(above), path_of(self).owner)))
        raise TypeError(f"{field} is a reference to a field, not its value: write {instead.format(field)}")

    def __getattr__(self, name: str) -> "Reference":
        if name.startswith("_"):  # copy, pickle and inspection probe these; fields never begin with one
            raise AttributeError(name)
        return self._odm_longer(name)

    def __getitem__(self, key: str | int) -> "Reference":
        if not isinstance(key, str | int) or isinstance(key, bool) or (isinstance(key, int) and key < 0):
            raise TypeError(
                f"{self!r}[{brief(key)}]: a path goes on with a map key (str) or a list position (int from 0)"
            )
        return self._odm_longer(key)

    def _odm_longer(self, segment: str | int) -> "Reference":
        path = path_of(self)
        return Reference(Path((*path.segments, segment), path.owner))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"{self!r}.{name} is a path, not a value: set it on an entity, or with set_(...) in an update"
        )

    def __repr__(self) -> str:
        path = path_of(self)
        return f"{path.owner.__name__}.{path}" if path.owner is not None else f'field("{path}")'


def path_of(reference: object) -> Path:
    """The path of a reference.

    Raises:
        TypeError: it is not a reference to a field.
    """
    operand = getattr(reference, "_odm_operand", None) if isinstance(reference, _Comparable) else None
    if isinstance(operand, Path):
        return operand
    if isinstance(reference, property) and reference.fget is not None:
        raise TypeError(
            f"{reference.fget.__qualname__} is a property or computed field, which is not stored: name the fields that "
            "it is made of; a pattern that has it in its key takes its value"
        )
    raise TypeError(
        f"{brief(reference)} is not a field: write it as Entity.field, or field('name') inside the class body"
    )


def operand_of(value: object) -> Operand:
    """A reference's operand, or the value as a constant."""
    return value._odm_operand if isinstance(value, _Comparable) else Const(value)
