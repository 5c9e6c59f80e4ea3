"""The command line's operations on DynamoDB; see `odm.protocol.admin`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from odm.backends.dynamodb.attributes import Attributes
from odm.backends.dynamodb.codec import read_entries, read_item, read_key
from odm.backends.dynamodb.driver import DynamoDB
from odm.backends.dynamodb.native import Call, Steps
from odm.backends.dynamodb.requests import steps_of
from odm.backends.dynamodb.schema import Layout
from odm.backends.dynamodb.tables import apply, plan
from odm.protocol.admin import Survey, Tell
from odm.protocol.connection import run
from odm.protocol.requests import CreateTables, Request, Scan
from odm.schema.evidence import Stored, judge
from odm.schema.lockfile import Finding
from odm.schema.model import Schema

R = TypeVar("R")


class Admin:
    """Inspects and changes one table."""

    def __init__(self, backend: DynamoDB, schema: Schema) -> None:
        self._connection = backend.connect(schema)
        self._schema = schema

    def survey(self, sample: int) -> Survey:
        """Compare the models with the table, and with the keys of some of its items.

        Args:
            sample: the number of items to read at most, within 1 MB; 0 reads none.

        Raises:
            BackendError: the table cannot be described or read.
        """
        layout = self._connection.layout
        changes = self._run(plan(layout), Scan())
        if not sample or any(change.what == f"table {layout.table!r}" for change in changes):
            return Survey(changes)  # the table does not exist or has a different key
        found = self._run(_sample(layout, sample), Scan())
        items = [_stored(layout, attributes) for attributes in found]
        return Survey(changes, (*judge(self._schema, items), *_shadowed(layout, found)), len(items))

    def apply(self, *, drop: bool, tell: Tell) -> None:
        """Make the changes; see `odm.backends.dynamodb.tables.apply`."""
        self._run(apply(self._connection.layout, drop=drop, tell=tell), CreateTables())

    def _run(self, steps: Steps[R], request: Request) -> R:
        """Run the steps. An error names `request`, so that a failed read is not reported as a failed create."""
        connection = self._connection
        result: R = run(steps_of(connection.layout, request, connection.attempts, steps), connection.call)
        return result


def _sample(layout: Layout, most: int) -> Steps[list[Attributes]]:
    """The attributes of some items."""
    response = yield Call("scan", {"TableName": layout.table, "Limit": most})
    return list(response["Items"])


def _shadowed(layout: Layout, items: Iterable[Attributes]) -> Iterator[Finding]:
    """Fields that are also attributes of stored items, but not in the models: a put would remove the attributes."""
    if layout.described is None:
        return
    counts = Counter(field for attributes in items for field in layout.described.shadowed(attributes))
    for (entity, field), count in counts.items():
        effect = f"{count} of the items read have it as an attribute too, which a put removes"
        fix = f'declare {field}: Annotated[..., Stored("{field}")]'
        yield Finding("unknown", f"{entity}.{field}", "attribute", "an attribute", "in the key only", effect, fix)


def _stored(layout: Layout, attributes: Any) -> Stored:
    key = read_key(layout, layout.keys, attributes)
    return Stored(key, read_item(layout, attributes), read_entries(layout, attributes))
