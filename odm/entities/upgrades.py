"""`upgrade`: marks the functions in a class body that turn stored items of one version into items of the next."""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from odm._published import public
from odm.errors import SchemaError

F = TypeVar("F", bound="Callable[..., Any] | staticmethod[..., Any] | classmethod[Any, ..., Any]")

MARK: Final = "__odm_upgrade__"
"""The attribute of such a function that holds the version it starts from."""


@public
def upgrade(*, from_: int) -> Callable[[F], F]:
    """Declare a function that turns stored items of one version of the entity into items of the next version.

    Use it in the body of ``class Order(Entity, table=shop, version=2)``, on a static method. The function takes the
    attributes of a stored item by *stored* name, with stored values (timestamps are text), as a dict that it may
    change, and returns the attributes of the next version. There must be a function for each version from 1 to the
    one before the class's. An item is upgraded whenever it is read, and rewritten when it is put or updated; its
    primary key must stay the same. The stored version is the attribute ``_v``, absent in version 1.

    Args:
        from_: the version of the items that the function takes, 1 or more.

    Raises:
        SchemaError: ``from_`` is not an int of 1 or more.
    """
    if not isinstance(from_, int) or isinstance(from_, bool) or from_ < 1:
        raise SchemaError(f"@upgrade(from_={from_!r}): give the version of the items to upgrade, an int of 1 or more")

    def mark(function: F) -> F:
        setattr(getattr(function, "__func__", function), MARK, from_)
        return function

    return mark


def upgrades_of(cls: type) -> Iterator[tuple[str, int]]:
    """The names of upgrade functions, inherited ones too, with the version that each starts from."""
    attributes = {name: attribute for base in reversed(cls.__mro__) for name, attribute in vars(base).items()}
    known = vars(BaseModel)
    for name, attribute in attributes.items():
        if known.get(name) is attribute:  # most attributes are pydantic's own
            continue
        from_ = getattr(getattr(attribute, "__func__", attribute), MARK, None)
        if isinstance(from_, int):
            yield name, from_
