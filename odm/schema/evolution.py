"""The declarations about an entity's evolution: its version and upgrades, and how many items are kept."""

from inspect import signature
from typing import TYPE_CHECKING, Any

from odm.codec import Upgrades
from odm.entities.upgrades import upgrades_of
from odm.errors import SchemaError
from odm.schema.entity import PatternSchema

if TYPE_CHECKING:
    from odm.entities.entity import Entity


def find_upgrades(cls: "type[Entity]") -> Upgrades:
    """The version of an entity and its chain of upgrades. Raises SchemaError if the chain is not valid."""
    version: Any = cls.__odm_version__
    if not _is_count(version):
        raise SchemaError(f"class {cls.__name__}: version={version!r}: give an int of 1 or more")
    steps: dict[int, str] = {}
    for name, from_ in upgrades_of(cls):
        if from_ >= version:
            raise SchemaError(
                f"{cls.__name__}.{name} upgrades from version {from_}, and the class is version {version}: declare "
                f"class {cls.__name__}(Entity, table=..., version={from_ + 1})"
            )
        if from_ in steps:
            raise SchemaError(
                f"{cls.__name__}.{steps[from_]} and {cls.__name__}.{name} both upgrade from version {from_}: keep one"
            )
        _check_call(cls, name)
        steps[from_] = name
    for number in range(1, version):
        if number not in steps:
            raise SchemaError(
                f"{cls.__name__} is version {version}, but no function upgrades its items from version {number}: add "
                f"@upgrade(from_={number}) to a static method that takes their attributes and returns those of "
                f"version {number + 1}"
            )
    return Upgrades(version, tuple(getattr(cls, steps[number]) for number in range(1, version)))


def find_keep(cls: "type[Entity]", primary: PatternSchema) -> int | None:
    """How many items of an entity are kept in a partition; None: all. Raises SchemaError."""
    keep: Any = cls.__odm_keep__
    if keep is None:
        return None
    if not _is_count(keep):
        raise SchemaError(f"class {cls.__name__}: keep={keep!r}: give the number of items to keep, an int of 1 or more")
    if primary.sort is None or not set(primary.sort.fields) - set(primary.partition.fields):
        raise SchemaError(
            f"class {cls.__name__}: keep={keep} keeps the newest items of a partition, but {primary.text} has no field "
            "of its own in the sort key, so a partition holds one item: give the primary key a sort template such as "
            '"{created_at}"'
        )
    if primary.shards is not None:
        raise SchemaError(
            f"class {cls.__name__}: keep={keep} keeps the newest items of a partition, but {primary.shards!r} spreads "
            "them over several, so no write knows the newest of all: drop keep= and let old items expire by TTL, or "
            "drop shards="
        )
    return int(keep)


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1


def _check_call(cls: type, name: str) -> None:
    """Check that the function takes only the attributes."""
    try:
        signature(getattr(cls, name)).bind({})
    except TypeError as error:
        raise SchemaError(
            f"{cls.__name__}.{name}: an upgrade takes only the attributes of an item, but {error}: write "
            f"@upgrade(...) over @staticmethod, and def {name}(item)"
        ) from error
