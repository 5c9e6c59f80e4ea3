"""The command line's operations on DynamoDB; see `odm.protocol.admin`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from odm.backends.dynamodb.client.native import Call, Steps
from odm.backends.dynamodb.driver import DynamoDB
from odm.backends.dynamodb.items.attributes import Attributes, from_attribute
from odm.backends.dynamodb.items.codec import put_values, read_entries, read_item, read_key, to_attribute
from odm.backends.dynamodb.items.layout import Layout
from odm.backends.dynamodb.requests import steps_of
from odm.backends.dynamodb.tables import apply, plan
from odm.codec import TAG
from odm.codec.types.blobs import placeholders
from odm.errors import OdmError
from odm.protocol.admin import Survey, Tell
from odm.protocol.connection import run
from odm.protocol.requests import CreateTables, Put, Request, Scan
from odm.schema.evidence import Stored, judge
from odm.schema.model import Schema
from odm.schema.rewrites import Rewrite, rewritten

if TYPE_CHECKING:
    from odm.schema.lockfile import Finding


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
        findings = (*judge(self._schema, items), *_shadowed(layout, found))
        if layout.described is not None:
            written = _rewrites(self._schema, layout, found)
            findings += rewritten(written, keeps_unknown=self._schema.keep_unknown)
        return Survey(changes, findings, len(items))

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


def _shadowed(layout: Layout, items: Iterable[Attributes]) -> "Iterator[Finding]":
    """Fields that are also attributes of stored items, but not in the models: a put would remove the attributes."""
    from odm.schema.lockfile import Finding

    if layout.described is None:
        return
    counts = Counter(field for attributes in items for field in layout.described.shadowed(attributes))
    for (entity, field), count in counts.items():
        effect = f"{count} of the items read have it as an attribute too, which a put removes"
        fix = f'declare {field}: Annotated[..., Stored("{field}")]'
        yield Finding("unknown", f"{entity}.{field}", "attribute", "an attribute", "in the key only", effect, fix)


def _rewrites(schema: Schema, layout: Layout, items: Iterable[Attributes]) -> Iterator[Rewrite]:
    """What a put would write of each item that can be read; `judge` reports the others."""
    for attributes in items:
        item, key = read_item(layout, attributes), read_key(layout, layout.keys, attributes)
        entity = schema.entities.get(str(item.get(TAG)))
        if entity is None:
            continue
        try:
            made = entity.codec.decode(placeholders(entity.blobs, item), str(key))
            encoded = entity.codec.encode(made)
            put = Put(key, encoded, entity.entries(vars(made), encoded, Random(0)))
        except OdmError:
            continue
        after = {name: to_attribute(value) for name, value in put_values(layout, put).items()}
        before = {name: to_attribute(from_attribute(attribute)) for name, attribute in attributes.items()}
        for name in (*entity.blobs, *entity.key_only):  # each put writes another blob; `_shadowed` reports the others
            after.pop(name, None)
            before.pop(name, None)
        known = {*entity.codec.stored.values(), *after}
        yield Rewrite(entity.name, " | ".join(filter(None, key)), before, after, known)


def _stored(layout: Layout, attributes: Any) -> Stored:
    key = read_key(layout, layout.keys, attributes)
    return Stored(key, read_item(layout, attributes), read_entries(layout, attributes))
