"""Reading the items under several keys: one by one as the backend gets to them, or as they were at one instant."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from odm.codec import TAG
from odm.entities.query import Query
from odm.errors import BadValue, ItemTooLarge, Unsupported, brief
from odm.expressions.nodes import Item
from odm.procedures.blobs import check_eager, with_values
from odm.procedures.concurrent import concurrent
from odm.procedures.context import Context
from odm.procedures.reading.partial import Selection, selection_of
from odm.procedures.unprocessed import send_batch
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.limits import ACTIONS, item_size
from odm.schema.entity import Key, Target


def get_many(
    context: Context,
    queries: Sequence[Query[Any]],
    *,
    consistent: bool = True,
    atomic: bool = False,
    only: object = None,
) -> CoreGen[list[Any]]:
    """The entities under the keys, in the order of the keys; None for a key without an item."""
    if not isinstance(queries, Iterable):
        raise BadValue(f"get_many({brief(queries)}): give a list of keys, such as [Order.primary(...)]")
    targets = [context.schema.key_target(query) for query in queries]
    asked = None if only is None or not targets else _selection(context, targets, only)
    for target in targets:
        context.check_key(target)
    patterns = {target.key: target.entity.primary.full_name for target in targets}
    distinct = tuple(patterns)
    if atomic:
        _check_atomic(context, distinct, consistent=consistent)
    read = None if asked is None else asked.only
    request = req.BatchGet(distinct, consistent, patterns=tuple(patterns.values()), atomic=atomic, only=read)
    arguments = {target.key: target.query for target in targets}
    items = (yield from send_batch(request, arguments)) if distinct else ()
    if atomic:
        _check_atomic_size(context, items)
    if context.bind is not None and asked is None:
        items = yield from _with_values(context, patterns, items, atomic=atomic)
    by_key = {
        key: context.decode(item, key) if asked is None else asked.of(context, item, key)
        for key, item in zip(distinct, items, strict=True)
        if item is not None and context.living(item) is not None
    }
    answers = [by_key.get(target.key) for target in targets]
    if asked is not None:
        return answers
    return [
        answer if type(answer) is target.entity.cls else None for answer, target in zip(answers, targets, strict=True)
    ]


def _with_values(
    context: Context, patterns: Mapping[Key, str], items: Sequence[Item | None], *, atomic: bool
) -> CoreGen[list[Item | None]]:
    """The items, with the large values that are read with them."""
    there = [
        (key, item, name)
        for (key, name), item in zip(patterns.items(), items, strict=True)
        if item is not None and context.living(item) is not None
    ]
    if atomic:  # the values would be of another instant than the items
        for _, item, _ in there:
            if context.schema.knows(item):
                check_eager(context.schema.entities[item[TAG]], "get_many(atomic=True)")
    steps = [with_values(context, key, item, name) for key, item, name in there]
    read = dict(zip((key for key, _, _ in there), (yield from concurrent(steps)), strict=True))
    return [read.get(key) for key in patterns]


def _selection(context: Context, targets: Sequence[Target], only: object) -> Selection | None:
    entities = list(dict.fromkeys(target.entity.cls for target in targets))
    if len(entities) > 1:
        names = ", ".join(cls.__name__ for cls in entities)
        raise BadValue(
            f"get_many(only=...) reads fields of one entity, and these keys are of {names}: call it for each"
        )
    return selection_of(context, entities[0], only, "get_many")


def _check_atomic(context: Context, keys: Sequence[Key], *, consistent: bool) -> None:
    if not consistent:
        raise BadValue("get_many(atomic=True, consistent=False): an atomic read is consistent: leave consistent= out")
    if len(keys) > ACTIONS:
        raise BadValue(f"get_many(atomic=True) of {len(keys)} items: it reads at most {ACTIONS}; read fewer at a time")
    if context.transaction_unsupported_reason(keys) is not None:
        raise Unsupported(
            f"get_many(atomic=True) of {len(keys)} items on a backend that reads one row at a time: say Table(..., "
            "transactions=True); leave atomic= out; "
            'or keep in one item, or in one partition of a table with layout="row_per_partition", what must be read '
            "together"
        )


def _check_atomic_size(context: Context, items: Sequence[Item | None]) -> None:
    most, size = context.limits.transaction_bytes, sum(item_size(item) for item in items if item is not None)
    if most is not None and size > most:
        raise ItemTooLarge(f"get_many(atomic=True) of {size} bytes: it reads at most {most}; read fewer at a time")
