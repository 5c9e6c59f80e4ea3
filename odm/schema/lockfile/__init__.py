"""The lock file: how a table's items are stored, as text to commit, and the effects of changes on stored data.

`describe` turns a compiled `Schema` into a `TableLock`; `read_lock` and `write_lock` go from text to lock files and
back; `compare` returns the differences of two descriptions as `Finding` values. The command line does the I/O.
"""

from odm.schema.lockfile.compare import compare
from odm.schema.lockfile.describe import describe
from odm.schema.lockfile.description import FORMAT, LockFile, TableLock, plain, read_lock, write_lock
from odm.schema.lockfile.finding import LEVELS, OF_KEYS, Finding, Level, backfill_of
from odm.schema.lockfile.unfilled import lock_at, unfilled, with_filled, with_unfilled

__all__ = [
    "FORMAT",
    "LEVELS",
    "OF_KEYS",
    "Finding",
    "Level",
    "LockFile",
    "TableLock",
    "backfill_of",
    "compare",
    "describe",
    "lock_at",
    "plain",
    "read_lock",
    "unfilled",
    "with_filled",
    "with_unfilled",
    "write_lock",
]
