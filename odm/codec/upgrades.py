"""The chain of an entity's ``@upgrade`` functions: from a stored item of any older version to one of this version."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, TypeAlias

from odm.codec.attributes import TAG, TTL_ATTRIBUTE, VERSION, WAS
from odm.codec.types.stored import show
from odm.errors import ItemInvalid
from odm.expressions.nodes import Item, Value
from odm.immutable import Immutable

Step: TypeAlias = Callable[[dict[str, Value]], dict[str, Value]]

_OWN = frozenset({TAG, VERSION, TTL_ATTRIBUTE, WAS})


class Upgrades(Immutable):
    """The version of an entity, and the upgrades of older items.

    Attributes:
        version: the entity's.
        steps: the first upgrades version 1, the last returns items of the entity's version.
    """

    version: int = 1
    steps: tuple[Step, ...] = ()

    def current(self, item: Item) -> bool:
        """Whether the stored item is of the entity's version."""
        return bool(item.get(VERSION, 1) == self.version)

    def apply(self, name: str, item: Item, key: str) -> dict[str, Value]:
        """The attributes of an item of another version, upgraded to this version; without odm's own attributes.

        Args:
            name: the entity's, for messages.
            item: the stored item; it is not changed.
            key: the key it is stored under, for messages.

        Raises:
            ItemInvalid: a step failed, its error is the cause; or the version of the item is later or not valid.
        """
        stored: Any = item.get(VERSION, 1)
        subject = f"a stored {name}{f' under {key}' if key else ''}"
        if type(stored) is not int or stored < 1:
            raise ItemInvalid(
                f"{subject} has the version {show(stored)}, not a positive int: remove or fix it", key, item
            )
        if stored > self.version:
            raise ItemInvalid(
                f"{subject} has version {stored}, and the model is version {self.version}: it was written by a later "
                "model; read it with that one",
                key,
                item,
            )
        attributes = deepcopy({name: value for name, value in item.items() if name not in _OWN})
        for version, step in enumerate(self.steps[stored - 1 :], stored):
            attributes = _apply(step, attributes, f"{subject}: @upgrade(from_={version}) failed", key, item)
        return {name: value for name, value in attributes.items() if name not in _OWN}


FIRST = Upgrades()
"""An entity that has not been changed."""


def _apply(step: Step, attributes: dict[str, Value], failed: str, key: str, item: Item) -> dict[str, Value]:
    try:
        upgraded: object = step(attributes)
    except Exception as error:
        raise ItemInvalid(f"{failed}: {type(error).__name__}: {error}", key, item) from error
    if not isinstance(upgraded, Mapping):
        raise ItemInvalid(f"{failed}: it returned {show(upgraded)} and must return the attributes", key, item)
    return dict(upgraded)
