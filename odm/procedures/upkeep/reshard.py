"""Moves index entries to their current shards after the number of shards has changed.

A move is an update that only writes the entry, on the condition that the fields of its key are unchanged since they
were read. So it can run while other programs read and write, and after a failure it can be called again.
"""

from typing import Any, Final

from odm.entities.query import Query
from odm.errors import BadValue, ItemNotFound
from odm.immutable import evolve
from odm.keys import suffixes
from odm.planner.compile import make_plan
from odm.planner.plan import Plan
from odm.procedures.companions.commit import ALONE, commit
from odm.procedures.companions.intent import IntentWithCompanions
from odm.procedures.concurrent import concurrent
from odm.procedures.context import Context
from odm.procedures.reading.read import Found, begin, stored_chunk
from odm.procedures.writing.update import new_entries
from odm.protocol.connection import CoreGen
from odm.schema.entity import Target

CONCURRENT_MOVES: Final = 64
"""The number of entries moved concurrently."""


def reshard(context: Context, query: Query[Any]) -> CoreGen[int]:
    """Move the entries that a query finds in old shards to the current ones; returns the number of entries moved.

    Raises:
        ItemInvalid: an item does not fit its model, also in a store that skips such items: its entry would stay behind.
        BadValue: the query's pattern has no ``was=``.
    """
    context = evolve(context, on_invalid=None)
    plan = make_plan(context.schema, query)
    _check(plan)
    staying = suffixes(plan.pattern.shards) if plan.pattern.hashed is None else ()  # random shards: any will do
    shards = tuple(shard for shard in plan.shards if shard in plan.leaving and shard not in staying)
    going = begin(context, query) if shards else None
    going = None if going is None else evolve(going, plan=evolve(plan, shards=shards, leaving=frozenset()))
    moved = 0
    while going is not None:
        rows, going = yield from stored_chunk(context, going)
        for start in range(0, len(rows), CONCURRENT_MOVES):
            moves = [_move(context, plan, row) for row in rows[start : start + CONCURRENT_MOVES]]
            moved += sum((yield from concurrent(moves)))
    return moved


def _check(plan: Plan) -> None:
    shards = plan.pattern.shards
    if plan.entity is None:
        raise BadValue(f"reshard({plan.query}) moves the entries of one entity: call its pattern, as in a query")
    if shards is None or shards.was is None:
        raise BadValue(
            f"reshard({plan.query}): {plan.pattern.full_name} does not say that its shards were others: declare "
            "shards=Shards(..., was=...) with the number that there were"
        )


def _move(context: Context, plan: Plan, row: Found) -> CoreGen[int]:
    """Write an entry again, unless the model computes the shard that it is in."""
    item, position = row
    entity, instance = plan.entity, context.decode(item, position.key)
    assert entity is not None
    home = None if instance is None else plan.pattern.key(vars(instance), context.random)
    if instance is None or (home == position.index_key and plan.pattern.hashed is not None):
        return 0
    try:
        change = new_entries(Target(entity, position.key, vars(instance)), [plan.pattern])
        yield from commit(context, (IntentWithCompanions(change),), ALONE, {position.key: item})
    except ItemNotFound:
        return 0  # the item was removed meanwhile, with its entry
    return 1
