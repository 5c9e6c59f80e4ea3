"""Native requests: what the procedures yield and the driver performs.

Frozen values that hold all that a request says, in plain text and bytes, without anything of Google's packages. Their
text is close to the language of ``cbt``, the vendor's command line. Keys are `str`: the order of code points is
the order of their UTF-8 bytes, in which Bigtable sorts rows.
"""

import shlex
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar

from attrs import Factory, evolve, field, frozen

from odm.backends.bigtable.filters import AnyFamily, Chain, Filter, Newest
from odm.protocol.connection import NativeGen
from odm.protocol.requests import Sleep

FAMILY = "d"
"""The column family of an item's attributes."""

COUNTERS = "c"
"""The column family of an item's Counters: 64-bit numbers, which the server adds to."""

ENTRIES = "i"
"""The column family of an index table."""

SERVER_TIME = -1
"""The timestamp of a cell that gets the server's time."""

ITEM: Final = Chain((AnyFamily((COUNTERS, FAMILY)), Newest()))
"""All of an item: the newest cells of odm's two families, and of no other."""

_SHOWN = 60

R = TypeVar("R")


@frozen
class RowRange:
    """Row keys from ``start`` up to but not including ``end``; ``end`` None is the end of the table.

    ``open``: ``start`` itself is not included either.
    """

    start: str = ""
    end: str | None = None
    open: bool = False

    @property
    def empty(self) -> bool:
        """Whether no row key can lie inside: such a range must not be sent."""
        first = self.start + "\0" if self.open else self.start
        return self.end is not None and self.end <= first

    def beyond(self, row_key: str, *, reverse: bool) -> "RowRange":
        """What is left behind a row key in the direction of reading."""
        if reverse:
            return evolve(self, end=row_key) if self.end is None or row_key < self.end else self
        return evolve(self, start=row_key, open=True) if row_key >= self.start else self

    def __str__(self) -> str:
        start = f"start={_quoted(self.start)}" if self.start else ""
        if self.open:
            start = f"after={_quoted(self.start)}"
        end = f"end={_quoted(self.end)}" if self.end is not None else ""
        return " ".join(part for part in (start, end) if part)


@frozen
class ReadRows:
    """Read of rows what the filter leaves: of those of ``keys``, or of those in ``range``. Response: `Read`.

    ``limit`` is the most rows. A row of which the filter leaves nothing is not in the answer.
    """

    table: str
    keys: tuple[str, ...] = ()
    range: RowRange = RowRange()
    limit: int | None = None
    reverse: bool = False
    filter: Filter = ITEM

    def __str__(self) -> str:
        if self.keys:
            return f"lookup {self.table} {' '.join(map(_quoted, self.keys))} {self.filter}"
        words = [f"read {self.table}", str(self.range)]
        words += [f"count={self.limit}"] * (self.limit is not None)
        words += ["reversed=true"] * self.reverse
        words += [str(self.filter)]
        return " ".join(word for word in words if word)


@frozen
class DeleteFamily:
    """Take away the cells of one column family."""

    family: str

    def __str__(self) -> str:
        return f"deletefamily {self.family}"


@frozen
class DeleteColumn:
    """Take away the cells of one column; only those before ``before``, in microseconds, where that is given."""

    qualifier: str
    family: str = FAMILY
    before: int | None = None

    def __str__(self) -> str:
        until = "" if self.before is None else f" before {self.before}"
        return f"deletecolumn {_quoted(f'{self.family}:{self.qualifier}')}{until}"


class SetCell(NamedTuple):
    """Write one cell; ``timestamp`` in microseconds since 1970, whole milliseconds, or `SERVER_TIME`."""

    qualifier: str
    value: bytes
    timestamp: int
    family: str = FAMILY

    def __str__(self) -> str:
        if self.family == COUNTERS:
            return f"{self.family}:{self.qualifier}={int.from_bytes(self.value, 'big', signed=True)}"
        text = _readable(self.value)
        return f"{self.family}:{self.qualifier}={_quoted(text if len(text) <= _SHOWN else text[:_SHOWN] + '…')}"


Mutation: TypeAlias = DeleteFamily | DeleteColumn | SetCell


@frozen
class Entry:
    """A row key and what to do to its row, all or nothing."""

    key: str
    mutations: tuple[Mutation, ...]

    def __str__(self) -> str:
        return f"{_quoted(self.key)} {_listed(self.mutations)}"


@frozen
class MutateRow:
    """Change one row, whatever it holds. Response: None."""

    table: str
    entry: Entry

    def __str__(self) -> str:
        return f"mutate {self.table} {self.entry}"


@frozen
class MutateRows:
    """Change rows, each by itself. Response: `Mutated`."""

    table: str
    entries: tuple[Entry, ...]

    def __str__(self) -> str:
        return "\n".join((f"mutate {self.table}, {len(self.entries)} rows:", *(f"  {entry}" for entry in self.entries)))


@frozen
class CheckAndMutateRow:
    """Change one row by whether the predicate leaves a cell of it. Response: bool, whether it did.

    ``predicate`` None: any cell, so whether the row is there.
    """

    table: str
    key: str
    predicate: Filter | None = None
    matched: tuple[Mutation, ...] = ()
    unmatched: tuple[Mutation, ...] = ()

    def __str__(self) -> str:
        what = "there" if self.predicate is None else str(self.predicate)
        cases = ((f"if {what}:", self.matched), (f"if not {what}:", self.unmatched))
        actions = "; ".join(f"{case} {_listed(mutations)}" for case, mutations in cases if mutations)
        return f"check-and-mutate {self.table} {_quoted(self.key)} {actions}"


@frozen
class Increment:
    """Add to the number in a cell, 8 bytes, big-endian and signed; an absent one is 0."""

    qualifier: str
    by: int
    family: str = COUNTERS

    def __str__(self) -> str:
        return f"{self.family}:{self.qualifier}+={self.by}"


@frozen
class AppendValue:
    """Add bytes to the end of a cell; an absent one is empty."""

    qualifier: str
    value: bytes
    family: str = FAMILY

    def __str__(self) -> str:
        return f"{self.family}:{self.qualifier}.={_quoted(_readable(self.value))}"


@frozen
class ReadModifyWriteRow:
    """Change cells by what they hold, whatever the row is. Response: `Row` of the cells that it wrote."""

    table: str
    key: str
    rules: tuple[Increment | AppendValue, ...]

    def __str__(self) -> str:
        return f"read-modify-write {self.table} {_quoted(self.key)} {_listed(self.rules)}"


@frozen
class SampleRowKeys:
    """Ask for row keys that cut the table into parts of about one size. Response: tuple of `Sample`, in order."""

    table: str

    def __str__(self) -> str:
        return f"sample-row-keys {self.table}"


@frozen
class CreateTable:
    """Create a table; ``families``: name to the number of versions kept of each cell. Response: None."""

    table: str
    families: Mapping[str, int]

    def __str__(self) -> str:
        families = ",".join(f"{name}:maxversions={versions}" for name, versions in self.families.items())
        return f"createtable {self.table} families={families}"


@frozen
class ModifyFamilies:
    """Change a table's column families, all or none. Response: None.

    Attributes:
        table: the table.
        create, update: name to the number of versions kept of each cell.
    """

    table: str
    create: Mapping[str, int] = field(default=Factory(dict))
    update: Mapping[str, int] = field(default=Factory(dict))

    def __str__(self) -> str:
        made = [f"createfamily {self.table} {name}:maxversions={versions}" for name, versions in self.create.items()]
        changed = [f"setgcpolicy {self.table} {name} maxversions={versions}" for name, versions in self.update.items()]
        return "\n".join((*made, *changed))


@frozen
class DeleteTable:
    """Delete a table with all its rows. Response: None."""

    table: str

    def __str__(self) -> str:
        return f"deletetable {self.table}"


@frozen
class GetTable:
    """Ask what column families a table has. Response: `Families`."""

    table: str

    def __str__(self) -> str:
        return f"ls {self.table}"


@frozen
class ListTables:
    """Ask for names of the instance's tables, from a page on. Response: `Tables`.

    Attributes:
        table: the one on whose behalf it is asked, for messages.
        page: the token of the page; "" is the first.
    """

    table: str
    page: str = ""

    def __str__(self) -> str:
        return "ls"


AdminCall: TypeAlias = CreateTable | ModifyFamilies | DeleteTable | GetTable | ListTables
"""What is asked of the service for tables; all may be sent again."""

Call: TypeAlias = ReadRows | MutateRow | MutateRows | CheckAndMutateRow | ReadModifyWriteRow | SampleRowKeys | AdminCall


@frozen
class Concurrent:
    """Make calls at the same time. Response: what each brought, in order: a response, or the native failure itself."""

    calls: tuple[Call, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.calls))


Native: TypeAlias = Call | Concurrent | Sleep

Steps: TypeAlias = NativeGen[Native, R]
"""Steps of this backend: yields native requests, is sent their responses, and returns a result."""


class Column(NamedTuple):
    """A column: its family and its qualifier."""

    family: str
    qualifier: bytes


class Cell(NamedTuple):
    """One cell as it was read."""

    family: str
    qualifier: bytes
    value: bytes
    timestamp: int = 0


class Row:
    """One row as it was read, of these cells: its columns, and at the same places their values and timestamps.

    Rows of one answer that have the same columns share one tuple of them.
    """

    __slots__ = ("columns", "key", "timestamps", "values")

    columns: tuple[Column, ...]
    values: tuple[bytes, ...]
    timestamps: tuple[int, ...]

    def __init__(self, key: bytes, cells: Iterable[Cell] = ()) -> None:
        found = tuple(cells)
        self.key = key
        self.columns = tuple(Column(cell.family, cell.qualifier) for cell in found)
        self.values = tuple(cell.value for cell in found)
        self.timestamps = tuple(cell.timestamp for cell in found)

    @classmethod
    def parted(
        cls, key: bytes, columns: tuple[Column, ...], values: tuple[bytes, ...], timestamps: tuple[int, ...]
    ) -> "Row":
        """The row whose cells are already taken apart."""
        row = cls.__new__(cls)
        row.key, row.columns, row.values, row.timestamps = key, columns, values, timestamps
        return row

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells one by one, in the server's order."""
        return tuple(
            Cell(column.family, column.qualifier, value, timestamp)
            for column, value, timestamp in zip(self.columns, self.values, self.timestamps, strict=True)
        )

    @property
    def text(self) -> str:
        """The row key as text; bytes that are no UTF-8, which only others write, survive the way there and back."""
        return self.key.decode("utf-8", "surrogateescape")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and (self.key, self.cells) == (other.key, other.cells)

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Row({self.key!r}, {self.cells!r})"


@frozen
class Read:
    """What one attempt of `ReadRows` brought: whole rows, then perhaps the failure that ended it.

    ``scanned``: the last row key that the server has dealt with, with or without a row in the answer.
    """

    rows: tuple[Row, ...] = ()
    scanned: str | None = None
    failure: Exception | None = None


class Sample(NamedTuple):
    """A row key, which need not be one of a row, and about how many bytes lie before it; "" is the table's end."""

    key: bytes
    offset: int


Families: TypeAlias = Mapping[str, str]
"""The column families of a table: name to what is collected, in the language of ``cbt``: ``maxversions=1``."""


@frozen
class Tables:
    """A page of the names of an instance's tables; ``following`` is the token of the next one, "" if it is the last."""

    names: tuple[str, ...]
    following: str = ""


class Status(NamedTuple):
    """How the server answered one entry: gRPC's status code and a text; code 0 is done."""

    code: int
    message: str = ""


@frozen
class Mutated:
    """What one attempt of `MutateRows` brought: answers by the entries' index, then perhaps a failure."""

    answers: Mapping[int, Status] = field(default=Factory(dict))
    failure: Exception | None = None


def _listed(changes: tuple[object, ...]) -> str:
    return " ".join(map(str, changes))


def _readable(value: bytes) -> str:
    """The text of a cell, with escapes for bytes that are none and characters that do not show."""
    text = value.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _quoted(text: str) -> str:
    return shlex.quote(text)
