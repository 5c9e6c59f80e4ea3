"""What the command line asks of Bigtable; see `odm.operations.admin`."""

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.codec import Form, entries_of, stored
from odm.backends.bigtable.layout import key_of
from odm.backends.bigtable.native import ReadRows, Row, RowRange
from odm.backends.bigtable.retry import Retry, read_all
from odm.backends.bigtable.tables import apply, plan
from odm.codec import TAG
from odm.errors import BackendError
from odm.keys import next_prefix
from odm.operations.admin import Survey, Tell
from odm.operations.backend import Gen, run
from odm.schema.evidence import Stored, judge
from odm.schema.model import Key, Schema

SECONDS = 10.0
"""So long a call is tried again: somebody waits for it."""

SHARE = 10
"""A sample has at most this part of its rows of one kind, as far as there are others."""


class Admin:
    """The tables of one schema, to look at and to change."""

    def __init__(self, backend: Bigtable, schema: Schema) -> None:
        self._call = backend.connect(schema).call
        self._schema = schema
        self._retry = Retry(overall=SECONDS)

    def survey(self, sample: int) -> Survey:
        """Compare the models with the tables, and with the keys of some of their items.

        Args:
            sample: read at most so many items; 0: none.

        Raises:
            BackendError: the tables can not be described or read.
        """
        schema = self._schema
        changes = run(plan(schema, self._retry), self._call)
        if not sample or any(change.what == f"table {schema.name!r}" for change in changes):
            return Survey(changes)  # no table, or one that holds something else
        rows = run(_sample(schema.name, sample, self._retry), self._call)
        form = Form.of(schema)
        items = [found for row in rows if (found := _stored(schema, form, row)) is not None]
        return Survey(changes, judge(schema, items), len(items))

    def apply(self, *, drop: bool, tell: Tell) -> None:
        """Make the changes; see `odm.backends.bigtable.tables.apply`."""
        run(apply(self._schema, self._retry, drop=drop, tell=tell), self._call)


def _sample(table: str, most: int, retry: Retry) -> Gen[list[Row]]:
    """Some rows: a few of every kind, told by the first component of their keys, then those at the start."""
    found: dict[bytes, Row] = {}
    span = RowRange()
    while len(found) < most and not span.empty:
        few = min(max(1, most // SHARE), most - len(found))
        rows = yield from read_all(ReadRows(table, range=span, limit=few), retry)
        found |= {row.key: row for row in rows}
        if len(rows) < few:
            break
        span = RowRange(str(next_prefix(rows[-1].text.partition("#")[0] + "#")))
    if len(found) < most:
        rows = yield from read_all(ReadRows(table, limit=most), retry)
        found |= {row.key: row for row in rows}
    return [*found.values()][:most]


def _stored(schema: Schema, form: Form, row: Row) -> Stored | None:
    """The item of a row with all of its keys; None if there is no item in it."""
    try:
        found = stored(row, form)
    except BackendError:
        return Stored(Key(row.text), {}, {})  # not written by odm: it has the tag of no model
    if found is None:
        return None
    key = key_of(schema, row.text, str(found.item.get(TAG, ""))) or Key(row.text)
    return Stored(key, found.item, entries_of(row))
