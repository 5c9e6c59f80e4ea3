"""The proof of portability: LocalFile → DynamoDB Local → Bigtable's emulator → LocalFile, equal by item and by index.

Run it with `python -m tests.patterns.portability --items 100000`; a test in `test_copy` runs it with fewer items.
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from os import environ
from pathlib import Path
from typing import Any

from odm import Entity, Query, Store
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile
from odm.patterns.copy import copy
from odm.protocol.connection import Backend
from odm.results import RawItem
from tests import dynamodb_local, emulator
from tests.patterns.zoo import Animal, Keeper, Thing, Ticket, fill, zoo, zoo_v1

ASKED: dict[type[Entity], list[Callable[[Any], Query[Any]]]] = {
    Keeper: [lambda one: Keeper.primary(keeper_id=one.keeper_id), lambda one: Keeper.by_email(email=one.email)],
    Animal: [
        lambda one: Animal.primary(keeper_id=one.keeper_id),
        lambda one: Animal.by_birth(keeper_id=one.keeper_id),
        lambda one: Animal.sick(),
        lambda one: Animal.shown(),
        lambda one: Animal.by_day(born=one.born.replace(hour=0, minute=0, second=0, microsecond=0)),
        lambda one: Animal.by_weight(keeper_id=one.keeper_id),
    ],
    Ticket: [lambda one: Ticket.primary(day=one.day)],
    Thing: [lambda one: Thing.primary(name=one.name)],
}
"""For each pattern, the query of the partition of an item."""


def prove(backends: list[Backend], items: int, say: Callable[[str], object]) -> None:
    """Fill the first backend, copy from each to the next, and compare the last with the first.

    Raises:
        AssertionError: a copied item or query result differs.
    """
    stores = [Store(zoo, backend) for backend in backends]
    with ExitStack() as stack:
        for store in stores:
            stack.enter_context(store)
            store.create()
        v1 = stack.enter_context(Store(zoo_v1, backends[0]))
        begun = time.perf_counter()
        fill(v1, stores[0], items)
        say(f"{items} items on {backends[0]!r}: {time.perf_counter() - begun:.0f} s")
        for source, target in pairwise(stores):
            begun = time.perf_counter()
            done = copy(source, target)
            assert done.items == items, done
            assert done.verified is not None
            assert done.verified.same, done.verified
            seconds = time.perf_counter() - begun
            say(f"copied to {target.backend!r} and verified: {seconds:.0f} s, {items / seconds:.0f} items a second")
        first, last = stores[0], stores[-1]
        before, after = dict(_items(first)), dict(_items(last))
        assert before.keys() == after.keys()
        for key, item in before.items():
            assert item == after[key], key
        say("every item is equal, with all of its attributes")
        compared = 0
        for name, questions in _questions(first).items():
            for question in questions:
                ours, theirs = _answer(first, question), _answer(last, question)
                assert ours == theirs, (name, question)
                compared += len(ours)
            say(f"{name}: equal, {len(questions)} partitions")
        say(f"every index is equal: {compared} results")


def _items(store: Store) -> Iterator[tuple[tuple[str, str], RawItem]]:
    cursor: str | None = store.parts(1)[0]
    while cursor is not None:
        page = store.scan_page(cursor)
        for item in page.items:
            yield (item.partition, item.sort), item
        cursor = page.cursor


def _questions(store: Store) -> dict[str, list[Query[Any]]]:
    """A query for each partition of each pattern."""
    asked: dict[str, dict[str, Query[Any]]] = defaultdict(dict)
    for _, item in _items(store):
        for ask in ASKED[type(item.entity)]:
            query = ask(item.entity)
            asked[f"{query.entity.__name__}.{query.pattern}"].setdefault(str(query), query)
    return {name: [*queries.values()] for name, queries in asked.items()}


def _answer(store: Store, question: Query[Any]) -> list[Any]:
    """The results of a query, sorted by key: backends differ in the order of equal sort keys."""
    return sorted(store.query(question), key=store.key_of)


def main() -> None:
    """Run the proof with the number of items from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    items = parser.parse_args().items
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = stack.enter_context(emulator.running(emulator.find(environ)))
        endpoint = stack.enter_context(dynamodb_local.running(dynamodb_local.find(environ)))
        backends: list[Backend] = [
            LocalFile(folder / "first.db"),
            DynamoDB(region="eu-west-1", endpoint_url=endpoint),
            Bigtable("project", "instance", endpoint=address),
            LocalFile(folder / "last.db"),
        ]
        prove(backends, items, lambda text: sys.stdout.write(f"{text}\n") and sys.stdout.flush())


if __name__ == "__main__":
    main()
