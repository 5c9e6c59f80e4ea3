"""The errors for calls, keys and stored items that do not match the schema: the fault and its fix."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from odm.codec import TAG
from odm.entities.entity import Entity
from odm.entities.query import Finding, Query
from odm.errors import BadValue, ItemInvalid, KeyValueError, SchemaError, brief
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Item
from odm.schema.entity import EntitySchema, Key, Values


def not_of_the_table(name: str, declared: str, known: Mapping[type, EntitySchema], cls: type) -> SchemaError:
    """The error for a class that is not an entity of the table.

    Args:
        name: the table's name on the backend.
        declared: the name without the store's prefix.
        known: the names of the table's entities.
        cls: the class.
    """
    return SchemaError(_not_of_the_table(name, declared, known, cls))


def _not_of_the_table(table_name: str, declared: str, by_class: Mapping[type, EntitySchema], cls: type) -> str:
    name, known = cls.__name__, sorted(entity.name for entity in by_class.values())
    table = getattr(cls, "__odm_table__", None)
    fault = f"{name} is not an entity of table {table_name!r}"
    if table is not None and table.name != declared:
        return f"{name} belongs to table {table.name!r}, not {declared!r}: use a store of that table"
    if name in known:
        return f"{fault}; it has since been declared again: use the new class"
    if table is not None:
        return f"{name} belongs to another Table({declared!r}) than this store: declare both with one Table object"
    above = [base.__name__ for base in cls.__mro__ if base in by_class]
    if above:
        fix = f"class {name}({above[0]}, table=...) with its own primary key"
        return f"{fault}; it is a subclass of {above[0]} without a table of its own: declare {fix}"
    below = sorted(entity.__name__ for entity in by_class if issubclass(entity, cls))
    if below:
        return f"{fault}; it is a base class and not stored itself: use one of {', '.join(below)}"
    return f"{fault}; its entities are {', '.join(known)}. Declare it with class {name}(Entity, table=...)"


def no_class(which: object, key: Mapping[str, Any]) -> BadValue:
    """The error for key fields without an entity class."""
    if isinstance(which, Query | Entity):
        return BadValue(f"key fields ({', '.join(key)}) need an entity class; {brief(which)} is already a whole key")
    return BadValue(f"{brief(which)} is not an entity class: give the class itself, as in get(Order, order_id=...)")


def no_names(call: str, entity: EntitySchema | None, which: object, unnamed: Sequence[object]) -> TypeError:
    """The error for key fields or options that are given by position; ``entity`` is that of the argument, if known."""
    arguments = ", ".join([*map(brief, unnamed)])
    if isinstance(which, type) and entity is not None:
        names = ", ".join(f"{name}=..." for name in entity.primary.fields)
        return TypeError(f"{call}({entity.name}, {arguments}): give key fields by name: {call}({entity.name}, {names})")
    return TypeError(f"{call}(..., {arguments}): give options by name, such as consistent=False or when=...")


def no_actions(entity: EntitySchema | None, which: object, fields: Mapping[str, object]) -> TypeError:
    """The error for an update with values by name; ``entity`` is that of the argument, if known."""
    name = "Order" if entity is None else entity.name
    if isinstance(which, type):
        key = f"{name}.primary(...)" if entity is None else entity.key_call
        return TypeError(
            f"an update takes an entity or a key, then actions: write update({key}, set_({name}.field, value))"
        )
    sets = ", ".join(f"set_({name}.{field}, {brief(value)})" for field, value in fields.items())
    return TypeError(f"an update takes actions, not fields by name: write {sets}, or *set_fields({name}, changes)")


def no_key(by_class: Mapping[type, EntitySchema], which: object) -> BadValue:
    """The error for a value that is not a key."""
    if isinstance(which, Finding):
        which.refuse("key")
    entity = by_class.get(which) if isinstance(which, type) else None
    if (instance := by_class.get(type(which))) is not None:
        return BadValue(f"a read takes a key, not an entity ({instance.name}): write {instance.key_call}")
    name, call = (brief(which), "Entity.primary(...)") if entity is None else (entity.name, entity.key_call)
    if callable(which) and not isinstance(which, type):  # Order.primary, Order.latest
        call = f"{name}(...)"
    return BadValue(f"{name} is not a key: write {call} with every key field")


def no_single_key(entity: EntitySchema, query: Query[Any], missing: str | None, *, plain: bool) -> BadValue:
    """The error for a query that is not the key of one item."""
    why = f"{brief(missing)} is missing" if missing and plain else "it is a query"
    kind = KeyValueError if missing else BadValue
    otherwise = "" if query.pattern == entity.primary.name else ", or db.first(query) for its first result"
    return kind(f"{query} is not the key of one item, {why}: write {entity.key_call}{otherwise}")


_AND: Final = " and "


def of_several(entities: Iterable[EntitySchema]) -> str:
    """The tag of an item that fits match= of several entities, and so is of none."""
    return _AND.join(entity.name for entity in entities)


def several_fit(entities: Iterable[EntitySchema], item: Item, tag: str | None) -> str | None:
    """The names of the entities whose match= the item fits, if these are several; ``tag``: as in `unknown_item`."""
    if tag is not None:
        return None
    asking = [entity for entity in entities if entity.match is not None]
    fitting = [entity for entity in asking if entity.match is not None and holds(entity.match, item)]
    if len(fitting) > 1:
        return of_several(fitting)
    names = str(item.get(TAG)).split(_AND)
    return _AND.join(names) if len(names) > 1 and {*names} <= {entity.name for entity in asking} else None


def unknown_item(
    table: str, item: Item, key: Key, tag: str | None = TAG, entities: Iterable[EntitySchema] = ()
) -> ItemInvalid:
    """The error for an item whose tag no entity has.

    Args:
        table: the table's name.
        item: the item.
        key: its key.
        tag: the attribute of the table with the tag; None: it has none.
        entities: those of the table.
    """
    if several := several_fit(entities, item, tag):
        has = (
            f"attributes that fit match= of {several}, so it is of none of them: remove the attributes of one with the "
            "program that wrote it"
        )
    elif TAG in item:
        has = f"the tag {item[TAG]!r}, which no entity of the table has: declare one with tag=..."
    elif tag is None:
        has = "neither the key nor the attributes of an entity of the table: declare one that it fits"
    else:
        has = f"no tag: did another program write it? Give its attribute {tag!r} the tag of an entity"
    return ItemInvalid(
        f'the item under {key} of table {table!r} has {has}, remove the item, or open the store with on_unknown="skip"',
        str(key),
        item,
    )


def other_key(entity: EntitySchema, item: Item, key: Key, fields: Values) -> ItemInvalid:
    """The error for an item whose fields do not give the key that it is stored under."""
    values = ", ".join(f"{name}={brief(fields[name])}" for name in entity.primary.fields)
    return ItemInvalid(
        f"a stored {entity.name} under {key} has the fields of another key ({values}), so an update would not find it "
        "and a put would make a second item: fix the stored fields, or store the item under the key of its fields",
        str(key),
        item,
    )


def naive(entity: EntitySchema, item: Item, key: Key, field: str, value: object) -> ItemInvalid:
    """The error for an item with a datetime that could not be stored again."""
    return ItemInvalid(
        f"a stored {entity.name} under {key} does not fit the model: {field}: {brief(value)} has no time zone, "
        "so it is not "
        "a timestamp: fix the stored item, as in 2024-05-01T10:00:00Z, or declare the field as str",
        str(key),
        item,
    )


def moved_by_upgrade(entity: EntitySchema, item: Item, key: Key, upgraded: Key) -> ItemInvalid:
    """The error for an item whose upgrade changes its key, so that no read would find it."""
    return ItemInvalid(
        f"a stored {entity.name} under {key} would have the key {upgraded} after the upgrade to version "
        f"{entity.version}: an upgrade must not change the fields of the primary key",
        str(key),
        item,
    )
