"""Scans of a range of partition keys: ``scan(Meter, prefix={"meter": "12"})``, ``start={...}, stop={...}``.

Each argument has values of the leading fields of the partition template. The template makes a range of keys of them.
Conditions go with it where that range is wider than what was asked for.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from odm.errors import BadValue, KeyValueError, Unsupported, brief
from odm.expressions.nodes import And, Compare, Condition, Const, Or, Path, StartsWith
from odm.keys import Op, Span, Template
from odm.protocol.reading import Partitions
from odm.schema.entity import EntitySchema

_NONE = Partitions("", "")


class Range(NamedTuple):
    """A range of partition keys, and the conditions that leave the others of the range out."""

    partitions: Partitions
    conditions: tuple[Condition, ...] = ()


def partitions_of(
    entity: EntitySchema | None, prefix: object, start: object, stop: object, unsupported: str | None
) -> Range | None:
    """The partitions that the arguments of a scan name; None if they name none.

    Args:
        entity: the entity of the scan.
        prefix: as for `odm.Store.scan`.
        start: likewise.
        stop: likewise.
        unsupported: why the backend cannot read a range of partitions; None: it can.

    Raises:
        BadValue: they do not fit together, or do not give leading fields of the partition.
        KeyValueError: a value cannot be used in a key.
        Unsupported: the partitions of the entity have no order.
    """
    given = {"prefix": prefix, "start": start, "stop": stop}
    asked = {name: values for name, values in given.items() if values is not None}
    if not asked:
        return None
    if entity is None:
        raise BadValue(f"scan({next(iter(asked))}=...) reads partitions of one entity: scan(Meter, prefix=...)")
    if len(asked) > 1 and "prefix" in asked:
        raise BadValue("scan() takes prefix=, or start= and stop=: not both")
    if entity.primary.shards is not None:
        unsupported = (
            f"the partitions of {entity.primary.full_name} are sharded, so a range of them is not one range of keys: "
            "use a condition, which reads the whole table"
        )
    leading = {name: _leading(entity, name, values) for name, values in asked.items()}
    if prefix is None:
        found = _between(entity, leading.get("start"), leading.get("stop"))
    else:
        found = _within(entity, leading["prefix"])
    if unsupported is not None:  # wrong values have the same error everywhere
        argument, values = next(iter(leading.items()))
        example = f"scan({entity.name}, {entity.name}.{next(iter(values))} >= ...)"
        raise Unsupported(f"scan({entity.name}, {argument}=...): {unsupported}. Such a condition is {example}")
    return found


def _leading(entity: EntitySchema, argument: str, given: object) -> dict[str, Any]:
    """The values of an argument, in the order of the template."""
    fields = tuple(dict.fromkeys(entity.primary.partition.fields))
    call = f"scan({entity.name}, {argument}={brief(given)})"
    example = f'{{"{fields[0]}": ...}}' if fields else ""
    if not fields:
        raise BadValue(f"{call}: all items of {entity.name} are in one partition: query it")
    if not isinstance(given, Mapping) or not given:
        raise BadValue(f"{call}: give values of the leading fields of the partition, such as {example}")
    wanted = fields[: len(given)]
    if set(wanted) != set(given):
        known = ", ".join(fields)
        raise BadValue(f"{call}: the fields of the partition are {known}: give leading ones, such as {example}")
    lossy = [name for name in wanted[:-1] if name in entity.primary.partition.lossy]
    if lossy:
        raise BadValue(f"{call}: {lossy[0]} is not stored whole in the partition, so it must be the last field given")
    return {name: given[name] for name in wanted}


def _split(entity: EntitySchema, values: Mapping[str, Any]) -> tuple[dict[str, Any], str, Any]:
    """The validated values of all fields but the last, and the last field with its value."""
    *names, last = values
    try:
        return {name: entity.codec.validate(name, values[name]) for name in names}, last, values[last]
    except KeyValueError:
        raise
    except BadValue as error:
        raise KeyValueError(str(error)) from error


def _within(entity: EntitySchema, values: Mapping[str, Any]) -> Range:
    template, (given, last, value) = entity.primary.partition, _split(entity, values)
    if isinstance(value, str):
        with suppress(KeyValueError):  # a field of this form has no prefix
            span = template.span(given, [("prefix", value)])
            return _ranged(entity, span.lo, span.hi, span.exact, StartsWith(Path((last,)), Const(value)), given)
    known = given | {last: entity.codec.validate(last, value)}
    span = template.span(known)
    return _ranged(entity, span.lo, span.hi, span.exact, Compare("=", Path((last,)), Const(known[last])), given)


def _between(entity: EntitySchema, start: Mapping[str, Any] | None, stop: Mapping[str, Any] | None) -> Range:
    template = entity.primary.partition
    lo, hi, exact = template.span({}).lo, template.span({}).hi, True
    conditions: list[Condition] = []
    if start is not None:
        given, last, value = _split(entity, start)
        span, whole = _bounded(template, given, last, ">=", value), template.span(given)
        if span.empty and whole.hi is None:
            return Range(_NONE)
        lo, exact = str(whole.hi) if span.empty else span.lo, span.exact
        conditions.append(_beyond(template, given, last, ">=", value))
    if stop is not None:
        given, last, value = _split(entity, stop)
        span = _bounded(template, given, last, "<", value)
        hi, exact = span.hi, exact and span.exact
        conditions.append(_beyond(template, given, last, "<", value))
    return _exactly(entity, Partitions(lo, hi), exact, conditions)


def _bounded(template: Template, given: Mapping[str, Any], last: str, op: Op, value: Any) -> Span:
    """The keys on this side of a value, in the order of the keys."""
    return template.span(given, [(_turned(template, last, op), value)])


def _turned(template: Template, name: str, op: Any) -> Any:
    """The comparison of a field that means this one of its texts."""
    slot = next(slot for slot in template.slots if slot.name == name)
    flipped = {">=": "<=", "<": ">", ">": "<"}
    return flipped[op] if slot.type.flips else op


def _beyond(template: Template, given: Mapping[str, Any], last: str, op: Any, value: Any) -> Condition:
    """The condition that the fields, compared one after another, are on this side of the values."""
    found: Condition = Compare(_turned(template, last, op), Path((last,)), Const(value))
    strict = ">" if op == ">=" else "<"
    for name, at in reversed([*given.items()]):
        path = Path((name,))
        same = And((Compare("=", path, Const(at)), found))
        found = Or((Compare(_turned(template, name, strict), path, Const(at)), same))
    return found


def _ranged(
    entity: EntitySchema, lo: str, hi: str | None, exact: bool, last: Condition, given: Mapping[str, Any]
) -> Range:
    equal = [Compare("=", Path((name,)), Const(value)) for name, value in given.items()]
    return _exactly(entity, Partitions(lo, hi), exact, [*equal, last])


def _exactly(entity: EntitySchema, partitions: Partitions, exact: bool, conditions: Sequence[Condition]) -> Range:
    """The range, with the conditions if it has other keys too: those of keys as they are may begin alike."""
    return Range(partitions, () if exact and not entity.primary.partition.verbatim else tuple(conditions))
