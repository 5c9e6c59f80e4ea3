"""Upgrades stored items of an older version, to judge a condition on them or for a write.

An update names attributes of the current model, so it never changes an older item in place: it puts the upgraded and
changed item, on the condition that the stored item is unchanged since the read.
"""

from collections.abc import Sequence

from odm.codec import TAG, TTL_ATTRIBUTE, VERSION, WAS, NativeItems
from odm.codec.types.blobs import kept_inline
from odm.errors import ItemInvalid
from odm.expressions.evaluate import holds
from odm.expressions.nodes import And, Condition, Item, Missing, Not, Or, Path, Value
from odm.immutable import evolve
from odm.procedures.context import Context
from odm.protocol.predicates import equals, every, has_tag, version_is
from odm.protocol.requests import Position
from odm.schema.entity import EntitySchema, Key


def up_to_date(context: Context, entity: EntitySchema, item: Item, key: Key) -> Item:
    """The item as the current model would store it; the same item if it is of the current version.

    Attributes that the model does not know are kept.

    Raises:
        ItemInvalid: the item cannot be upgraded, or has no tag.
    """
    if entity.codec.upgrades.current(item) and TAG in item:
        return item
    instance = evolve(context, skip_unknown=False).decode(item, key)  # an unknown item is an error here
    attributes = entity.codec.upgrades.apply(entity.name, item, str(key))
    former = {WAS: item[WAS]} if WAS in item else {}
    current = kept_inline(entity.blobs, attributes, entity.codec.encode(instance))
    return unknown(entity, attributes) | former | current


def passing_older(context: Context, entity: EntitySchema | None, condition: Condition | None) -> Condition | None:
    """The filter of a read that items of an older version pass; `judged` evaluates it on them after their upgrade.

    Args:
        context: of the store.
        entity: the entity whose items are read; None: those of any entity.
        condition: the filter, lowered.
    """
    if condition is None or (entity is not None and entity.version == 1):
        return condition
    changed = _changed(context, entity)
    if not changed or (entity is not None and condition == has_tag(entity.tag)):
        return condition
    return Or((condition, *(And((has_tag(model.tag), Not(version_is(model)))) for model in changed)))


def comparable(
    context: Context, items: Sequence[Item], positions: Sequence[Position]
) -> tuple[Sequence[Item], Sequence[Position]]:
    """The items of a page without those that a filter cannot judge, see `NativeItems.misread`.

    Raises:
        ItemInvalid: there is one, unless the store skips such items.
    """
    unfit = frozenset(items.misread) if isinstance(items, NativeItems) else frozenset()
    for at in sorted(unfit):
        try:
            context.check_fit(items[at], positions[at].key)
        except ItemInvalid as error:
            context.skip_invalid(error, items[at])
    kept = [at for at in range(len(items)) if at not in unfit] if unfit else ()
    return ([items[at] for at in kept], [positions[at] for at in kept]) if unfit else (items, positions)


def judged(
    context: Context,
    entity: EntitySchema | None,
    condition: Condition | None,
    items: Sequence[Item],
    positions: Sequence[Position],
) -> tuple[Sequence[Item], Sequence[Position]]:
    """The items of a page without those of an older version that do not pass the filter after their upgrade.

    Raises:
        ItemInvalid: an item cannot be upgraded, unless the store skips such items.
    """
    if condition is None:
        return items, positions
    items, positions = comparable(context, items, positions)
    if entity is not None and entity.version == 1:
        return items, positions
    tags = {model.tag: model for model in _changed(context, entity)}
    if not tags:
        return items, positions
    kept: list[tuple[Item, Position]] = []
    for item, position in zip(items, positions, strict=True):
        of = tags.get(str(item.get(TAG)))
        try:
            passes = (
                of is None
                or of.codec.upgrades.current(item)
                or holds(condition, up_to_date(context, of, item, position.key))
            )
        except ItemInvalid as error:
            context.skip_invalid(error, item)
            continue
        if passes:
            kept.append((item, position))
    return [item for item, _ in kept], [position for _, position in kept]


def _changed(context: Context, entity: EntitySchema | None) -> list[EntitySchema]:
    """The entities of a read whose items may be of an older version."""
    return [model for model in (context.schema.entities.values() if entity is None else (entity,)) if model.version > 1]


def unknown(entity: EntitySchema, item: Item) -> dict[str, Value]:
    """The attributes that the model does not know."""
    known = {*entity.codec.stored.values(), TTL_ATTRIBUTE}
    return {name: value for name, value in item.items() if name not in known}


def unchanged(entity: EntitySchema, item: Item) -> Condition | None:
    """The condition that every attribute equals that of this item, and no other attribute of the model exists."""
    absent = [Missing(Path((name,))) for name in (*entity.codec.stored.values(), VERSION) if name not in item]
    return every(*(equals(name, item) for name in item), *absent)
