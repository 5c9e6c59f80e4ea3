"""The models of a live table."""

from typing import TYPE_CHECKING, Any, cast

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.native import Call, Steps
from odm.backends.dynamodb.requests import steps_of
from odm.cli.inspect.facts import Attributes, TableFacts, facts_of
from odm.cli.inspect.models import models_of
from odm.cli.locations import backend_at
from odm.cli.usage import BadUsage
from odm.protocol.connection import run
from odm.protocol.requests import Scan
from odm.schema.model import Schema

if TYPE_CHECKING:
    from odm.backends.bigtable import Bigtable


def source_at(location: str, table: str, sample: int) -> str:
    """The source of the models of a table.

    Args:
        location: as for `odm.cli.locations.backend_at`; on DynamoDB or Bigtable.
        table: the name of the table, without the prefix of the location.
        sample: the maximum number of items to read.

    Raises:
        BadUsage: the location is not one of DynamoDB or Bigtable.
        BadValue: no models keep every item of the sample as it is.
        OdmError: the table cannot be described or read.
    """
    backend, prefix = backend_at(location)
    if not isinstance(backend, DynamoDB) and backend.name != "bigtable":
        raise BadUsage(
            f"{location!r}: odm inspect reads tables on DynamoDB and Bigtable: write dynamodb:REGION or "
            "bigtable:PROJECT/INSTANCE"
        )
    return source_in(cast("DynamoDB | Bigtable", backend), prefix + table, sample)


def source_in(backend: "DynamoDB | Bigtable", table: str, sample: int) -> str:
    """The source of the models of a table of a backend; see `source_at`."""
    if isinstance(backend, DynamoDB):
        return models_of(_facts(backend, table, sample)).source
    from odm.cli.inspect.live_rows import row_facts
    from odm.cli.inspect.row_models import source_of_rows

    return source_of_rows(row_facts(backend, table, sample))


def _facts(backend: DynamoDB, table: str, sample: int) -> TableFacts:
    connection = backend.connect(Schema(name=table, entities={}, indexes={}))
    try:
        steps = _read(table, sample)
        facts: TableFacts = run(steps_of(connection.layout, Scan(), connection.attempts, steps), connection.call)
    finally:
        connection.close()
    return facts


def _read(table: str, sample: int) -> Steps[TableFacts]:
    described = yield Call("describe_table", {"TableName": table})
    ttl = yield Call("describe_time_to_live", {"TableName": table})
    items: list[Attributes] = []
    start: dict[str, Any] = {}
    while len(items) < sample:
        response = yield Call("scan", {"TableName": table, "Limit": sample - len(items), **start})
        items += response.get("Items", ())
        if not response.get("LastEvaluatedKey"):
            break
        start = {"ExclusiveStartKey": response["LastEvaluatedKey"]}
    return facts_of(described, ttl, items)
