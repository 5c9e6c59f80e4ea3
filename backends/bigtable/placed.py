"""Items of which some cells stand in families or columns of their own; see `odm.backends.bigtable.placement`.

To the rest of the backend, each item looks like a row of the usual form.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeVar

from attrs import Factory, define

from odm.backends.bigtable.cells import read
from odm.backends.bigtable.codec import UNREADABLE, Listed, Stored
from odm.backends.bigtable.filters import Chain, Column, Filter, Interleave
from odm.backends.bigtable.native import FAMILY, ITEM, Mutation, Row, Steps
from odm.backends.bigtable.native import Column as Place
from odm.backends.bigtable.ownership import REMOVED
from odm.backends.bigtable.placement import Placement, Plan, usual_row
from odm.backends.bigtable.places import Places
from odm.backends.bigtable.retry import Retry
from odm.backends.bigtable.selected import Selected, narrowed
from odm.codec import TAG
from odm.expressions.nodes import Item, Path

K = TypeVar("K")
V = TypeVar("V")

_MOST_PLANS = 512
_TAG = TAG.encode()


def _text(cell: bytes) -> str | None:
    """The tag in a cell, if it can be read."""
    try:
        tag = read(cell) if cell else None
    except UNREADABLE:
        return None
    return tag if isinstance(tag, str) else None


@define(eq=False)
class _Plans:
    """The plans of rows by their columns, the place of their tag and its cell; and the places of tags by columns."""

    known: dict[tuple[tuple[Place, ...], int, bytes], Plan] = Factory(dict)
    marks: dict[tuple[Place, ...], tuple[int, ...]] = Factory(dict)


class Placed(Places, dict=True):
    """Items with a row each, of which some cells stand elsewhere than usual."""

    @cached_property
    def _plans(self) -> _Plans:
        return _Plans()

    def named(self, found: dict[str, Row], cells: Filter) -> dict[str, Row]:
        rows = self.items(found.values(), former=cells == self.form.owned.former, wanted=cells)
        return {row.text: row for row in rows}

    @cached_property
    def current(self) -> Filter:
        return self.form.owned.item

    def read(self, ids: tuple[str, ...], retry: Retry, wanted: Filter = ITEM) -> Steps[dict[str, Row]]:
        return self._read(ids, retry, self.cells(wanted))

    def items(self, rows: Iterable[Row], *, former: bool = False, wanted: Filter = ITEM) -> list[Row]:
        return [self.usual(row, former=former) for row in narrowed(rows, wanted)]

    def item_of(self, row: Row) -> Row | None:
        return next(iter(self.items([row], former=True)), None)

    def cells(self, wanted: Filter) -> Filter:
        owned = self.form.owned
        if wanted == ITEM:
            return owned.former
        if isinstance(wanted, Selected) or wanted in (owned.item, owned.held, owned.bookkeeping):
            return wanted
        return self._everywhere(wanted)

    def _everywhere(self, wanted: Filter) -> Filter:
        """The filter for some of the marks of an item: its tag, revision, index entries and expiry."""
        homes = self.form.owned.tag_families
        match wanted:
            case Column(family, qualifier) if family == FAMILY and len(homes) > 1:
                return Interleave(tuple(Column(home, qualifier) for home in homes))
            case Chain(parts):
                return Chain(tuple(map(self._everywhere, parts)))
            case Interleave(parts):
                return Interleave(tuple(map(self._everywhere, parts)))
            case _:
                return wanted

    def usual(self, row: Row, *, former: bool = False) -> Row:
        """The row in the usual form; a row without a tag as it is.

        The cells of an item whose tag stands in another family than its entity's become a stranger's cells: odm would
        write the item elsewhere.
        """
        marks = self._plans.marks.get(row.columns)
        if marks is None:
            homes = self.form.owned.tag_families
            found = (n for n, (family, name) in enumerate(row.columns) if name == _TAG and family in homes)
            marks = tuple(found)
            self._keep(self._plans.marks, row.columns, marks)
        if not marks:
            return row
        at = next((n for n in marks if row.values[n]), marks[0])
        cell = row.values[at]
        plan = self._plans.known.get((row.columns, at, cell))
        if plan is None:
            plan = self._plan(row.columns, at, cell)
            self._keep(self._plans.known, (row.columns, at, cell), plan)
        was = self.form.placement(_text(cell)).was if former and plan.versions else None
        return usual_row(row, plan, was)

    def _plan(self, columns: tuple[Place, ...], at: int, cell: bytes) -> Plan:
        home = columns[at].family
        tag = _text(cell)
        known = tag is not None and not self.form.is_strange(tag)
        placement = self.form.placement(tag) if known else Placement(home)
        if placement.home == home:
            return placement.plan(columns)
        plan = Placement(home).plan(columns)
        kept = [n for n, number in enumerate(plan.numbers) if number != at]
        return Plan(
            tuple(plan.numbers[n] for n in kept),
            tuple(plan.columns[n] for n in kept),
            tuple(plan.spots[n] for n in kept),
        )

    @staticmethod
    def _keep(cache: dict[K, V], key: K, value: V) -> None:
        if len(cache) >= _MOST_PLANS:
            cache.clear()
        cache[key] = value

    def unchanged(self, id: str, before: Stored) -> Filter:
        return self._of(before.item).filter(super().unchanged(id, before))

    def removed(self, id: str, before: Stored | None = None) -> tuple[Mutation, ...]:
        return self.form.owned.removed

    def replaced(
        self,
        item: Item,
        id: str,
        revision: str,
        listed: Sequence[Listed],
        now: int,
        before: Stored | None = None,
    ) -> tuple[Mutation, ...]:
        made = super().replaced(item, id, revision, listed, now)
        return (*self.removed(id), *self._of(item).mutations(made[len(REMOVED) :]))

    def updated(self, id: str, changed: Iterable[Path], before: Stored, after: Item, now: int) -> tuple[Mutation, ...]:
        return self._of(before.item).mutations(super().updated(id, changed, before, after, now))

    def noted(self, id: str, before: Stored, revision: str, listed: Sequence[Listed], now: int) -> tuple[Mutation, ...]:
        return self._of(before.item).mutations(super().noted(id, before, revision, listed, now))

    def _of(self, item: Item) -> Placement:
        return self.form.placement(item.get(TAG))
