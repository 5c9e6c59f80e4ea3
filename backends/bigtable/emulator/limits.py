"""The limits of production, which the emulator enforces, and where Google states them.

"proto" are the comments of google/bigtable/v2/data.proto and bigtable.proto, and those of the table admin service.
"""

import re
from typing import Final

from odm.backends.bigtable.emulator.refusals import Refused, invalid

ROW_KEY: Final = 4096
"""Bytes of a row key, which has at least one (proto: Row.key)."""

QUALIFIER: Final = 16_384
"""Bytes of a qualifier, which may be empty (proto: Column.qualifier)."""

CELL: Final = 100 * 2**20
"""Bytes of a value (proto: Cell.value)."""

ROW: Final = 256 * 2**20
"""Bytes of a row: more cannot be read (proto: Row)."""

MUTATIONS: Final = 100_000
"""Mutations of a request (proto: MutateRowRequest, MutateRowsRequest) and rules of a ReadModifyWriteRow."""

READ: Final = 512 * 2**10
"""Bytes of a ReadRowsRequest (seen by users: https://github.com/googleapis/google-cloud-python/issues/6836)."""

FILTER: Final = 20_480
"""Bytes of a filter (proto: RowFilter)."""

DEPTH: Final = 20
"""The nesting of a filter (proto: RowFilter)."""

TABLE: Final = re.compile(r"[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}")
"""The id of a table (proto: CreateTableRequest.table_id)."""

INSTANCE: Final = re.compile(r"projects/[^/]+/instances/[^/]+")
"""The name of an instance."""

FAMILY: Final = re.compile(r"[-_.a-zA-Z0-9]{1,64}")
"""The name of a column family (proto: Family.name)."""

LABEL: Final = re.compile(r"[a-z0-9\-]{1,15}")
"""A label (proto: RowFilter.apply_label_transformer)."""

NO_END: Final = 2**63
"""Behind all timestamps."""


def check_key(key: bytes) -> None:
    """Refuse the key of a row that is written or asked for by its key."""
    if not key:
        raise invalid("Row keys must be non-empty")
    if len(key) > ROW_KEY:
        raise invalid(f"Row keys must not exceed {ROW_KEY} bytes, and one has {len(key)}: {key[:40]!r}...")


def check_qualifier(qualifier: bytes) -> None:
    """Refuse the qualifier of a cell that is written."""
    if len(qualifier) > QUALIFIER:
        raise invalid(f"Column qualifiers must not exceed {QUALIFIER} bytes, and one has {len(qualifier)}")


def check_value(value: bytes) -> None:
    """Refuse a value that is written."""
    if len(value) > CELL:
        raise invalid(f"Cell values must not exceed {CELL} bytes, and one has {len(value)}")


def check_count(what: str, count: int) -> None:
    """Refuse no mutations, or too many."""
    if not count:
        raise invalid(f"No {what} provided")
    check_most(what, count)


def check_most(what: str, count: int) -> None:
    """Refuse too many."""
    if count > MUTATIONS:
        raise invalid(f"A request has at most {MUTATIONS} {what}, and this one has {count}")


def check_time(micros: int, unit: int) -> None:
    """Refuse a timestamp that a table cannot have."""
    if micros < 0:
        raise invalid(f"Timestamps must not be negative, and one is {micros}")
    if micros % unit:
        raise invalid(f"Timestamp granularity mismatch: {micros} is not a multiple of {unit} microseconds")


def no_family(name: str) -> Refused:
    """The refusal of a column family that a table lacks."""
    return Refused("NOT_FOUND", f"Requested column family not found: {name!r}")


def row_too_large(key: bytes, size: int) -> Refused:
    """The refusal to read a row."""
    return Refused(
        "FAILED_PRECONDITION",
        f"Read returned {size} bytes from row {key[:40]!r}, which exceeds the limit of {ROW} bytes: "
        "filter its columns or versions",
    )
