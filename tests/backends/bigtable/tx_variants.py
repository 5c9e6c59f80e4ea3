"""Variants of the transactions of Bigtable that look correct and are not, as changes of the code.

Each is a function of the backend with other text. `Variant.applied` puts it in place of the real one.
"""

import inspect
import sys
from collections.abc import Sequence
from textwrap import dedent
from types import FunctionType
from typing import Any

import pytest
from attrs import frozen

from odm.backends.bigtable.rows import items as places
from odm.backends.bigtable.transactions import lock_cells, records, resolve
from odm.backends.bigtable.writes import counters
from odm.backends.bigtable.writes import single as writes
from odm.backends.bigtable.writes import transact as transactions


@frozen
class Change:
    """Other text of a function.

    Attributes:
        owner: its module or class.
        name: its name.
        old: the text that is replaced.
        new: the other text.
    """

    owner: Any
    name: str
    old: str
    new: str

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Put the changed function in place of the real one, wherever it was imported."""
        real: Any = inspect.getattr_static(self.owner, self.name)
        function = real.fget if isinstance(real, property) else real
        assert isinstance(function, FunctionType)
        source = dedent(inspect.getsource(function))
        assert self.old in source, f"{self.name} was rewritten: change the variant, too"
        changed: dict[str, Any] = {}
        exec(compile(source.replace(self.old, self.new), self.name, "exec"), vars(_module(function)), changed)
        if inspect.isclass(self.owner):
            patch.setattr(self.owner, self.name, changed[self.name])
            return
        for module in [one for name, one in sys.modules.items() if name.startswith("odm.backends.bigtable.")]:
            if getattr(module, self.name, None) is real:
                patch.setattr(module, self.name, changed[self.name])


def _module(function: FunctionType) -> Any:
    return sys.modules[function.__module__]


def states(old: str, new: str) -> Change:
    """A change of how readers find the committed state."""
    return Change(resolve.Locks, "_states", old, new)


def cells(name: str, old: str, new: str) -> Change:
    """A change of the cells of locks."""
    return Change(lock_cells.LockCells, name, old, new)


def trial(name: str, old: str, new: str) -> Change:
    """A change of an attempt."""
    return Change(transactions.Trial, name, old, new)


_UNSURE = "unsure = [key for key in held if key not in states]"


def _sure(is_in: str) -> Change:
    """Readers do not read a row again if the id of its lock is, or is not, among those that have a record."""
    sure = f"[key for key in held if key not in states and held[key][1].id {is_in} said]"
    return states(_UNSURE, f"states |= {{key: self.cells.before(*held[key]) for key in {sure}}}\n        {_UNSURE}")


VARIANTS: dict[str, Sequence[Change]] = {
    "a reader trusts that there is no record": [_sure("not in")],
    "a reader trusts an aborted record": [_sure("in")],
    "a reader takes what is staged": [states('if said.get(lock.id) == "committed":', "if True:")],
    "a reader takes what shows": [states("elif lock.after is None:", "elif True:")],
    "a reader takes a locked row without an item for absent": [
        states("elif lock.after is None:", "elif lock.after is None or lock.was is None:")
    ],
    "a reader takes the counters of a locked row": [
        cells("before", ", *lock.counters)", ")"),
        cells("_kept", "cell.family != COUNTERS and ", ""),
    ],
    "roll forward does not ask for the lock": [
        cells(
            "forward",
            "lock.is_held, matched=self._after(lock)",
            "matched=self._after(lock), unmatched=self._after(lock)",
        )
    ],
    "the record is removed before the rows are carried forward": [
        trial("finish", '"""Carry out', 'yield from self._forget()\n    """Carry out')
    ],
    "a resolver puts back without a record": [
        Change(
            resolve.Resolver,
            "_resolve",
            "if not (yield from records.abort(locks.records, lock.id, self.retry)):",
            "if False:",
        )
    ],
    "abort does not ask for a record": [
        Change(
            records,
            "abort",
            'CheckAndMutateRow(records, id, unmatched=(SetCell(STATE, b"aborted", SERVER_TIME, RECORD),))',
            'MutateRow(records, Entry(id, (SetCell(STATE, b"aborted", SERVER_TIME, RECORD),)))',
        )
    ],
    "commit does not ask for a record": [
        Change(
            records,
            "commit",
            "return CheckAndMutateRow(records, id, unmatched=",
            "from odm.backends.bigtable.client.filters import Nothing\n\n"
            "    return CheckAndMutateRow(records, id, Nothing(), unmatched=",
        )
    ],
    "one id for all attempts": [
        Change(
            transactions,
            "commit",
            "    while True:\n        id = writer.ids()\n",
            "    id = writer.ids()\n    while True:\n",
        )
    ],
    "checks do not lock": [
        Change(transactions, "commit", "id, since, parts)", "id, since, [part for part in parts if part.change])")
    ],
    "commit before all locks are answered": [trial("_lock", 'part.held == "yes"', 'part.held != "no"')],
    "commit before all claims are answered": [
        trial(
            "_claim",
            "stuck = yield from write_many(claims, self.writer.retry)",
            "from odm.backends.bigtable.client.native import MutateRows\n"
            "        from odm.backends.bigtable.client.retry import all_of\n"
            "        stuck, calls = None, [MutateRows(table, tuple(some)) for table, some in claims.items()]\n"
            "        if calls:\n"
            "            yield from all_of(calls)",
        )
    ],
    "a commit without an answer and a record counts as aborted": [
        trial("_outcome", "if (yield from records.abort(self.locks.records, self.id, self.writer.retry)):", "if True:")
    ],
    "a commit without an answer is reported as not done": [
        trial(
            "_commit",
            "self.unconfirmed = self.recorded = True",
            'self.failure = BackendError("not done")\n    return False',
        )
    ],
    "a commit is sent again": [
        trial(
            "_commit",
            "answer = yield call\n",
            "answer = yield from until_answered(call, self.writer.retry)\n",
        )
    ],
    "a lock is sent again": [
        trial(
            "_send",
            "answer = yield call\n",
            "answer = yield from until_answered(call, self.writer.retry)\n",
        )
    ],
    "a put does not ask for a lock": [
        Change(writes, "put_whole", "others = places.locks.locked(row_key)", "others = ()")
    ],
    "a put over an item with its tag does not ask for a lock": [
        Change(
            places.ItemRows,
            "strange",
            "self.locks.strange_or_locked(id, self.form.owned.strange(tag))",
            "self.form.owned.strange(tag)",
        )
    ],
    "a batch does not ask for locks": [
        Change(
            resolve.Locks,
            "change",
            "return ",
            "return NoLocks.change(self, table, row, ids, mutations, cookies)\n    return ",
        )
    ],
    "an update in one call does not ask for a lock": [
        cells("unless_locked", "chained(call.predicate, self.unlocked(id))", "call.predicate")
    ],
    "a lock leaves the revision alone": [
        Change(
            lock_cells.Lock,
            "mutations",
            "SetCell(self.revised, self.revision.encode(), now, self.home)",
            "SetCell(self.revised, (self.was or self.revision).encode(), now, self.home)",
        ),
        Change(
            lock_cells.Lock,
            "is_held",
            "newest(self.home, self.revised), ValueIs(self.revision.encode())",
            "newest(self.home, LOCK), ValueIs(self.text)",
        ),
    ],
    "an increment of a locked row counts": [Change(counters, "_is_locked", "return writer", "return False and writer")],
    "a lock does not ask for counters": [
        Change(transactions, "_unchanged", "for cell in counters:", "for cell in counters[:0]:")
    ],
    "roll forward leaves counters alone": [
        cells("_after", "return lock.after", "return tuple(one for one in lock.after if one.family != COUNTERS)")
    ],
    "roll back leaves counters alone": [cells("_before", ", DeleteFamily(COUNTERS), *cells)", ",)")],
    "the removal of a ghost does not ask for a lock": [
        Change(
            counters, "_undone", 'ValueIs(b"")) for mark in marks]', 'ValueIs(b"")) for mark in marks if mark == TAG]'
        )
    ],
    "a transaction waits while it holds locks": [
        trial(
            "_contend",
            "            return\n        yield from self.resolver.resolve",
            "            yield from self.resolver.pause([part.work.row_key])\n        yield from self.resolver.resolve",
        )
    ],
}
