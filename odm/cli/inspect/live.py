"""The facts of a live table on DynamoDB."""

from typing import Any

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.native import Call, Steps
from odm.backends.dynamodb.requests import steps_of
from odm.cli.inspect.facts import Attributes, TableFacts, facts_of
from odm.cli.locations import backend_at
from odm.cli.usage import BadUsage
from odm.protocol.connection import run
from odm.protocol.requests import Scan
from odm.schema.model import Schema


def facts_at(location: str, table: str, sample: int) -> TableFacts:
    """The facts of a table.

    Raises:
        BadUsage: the location is not one of DynamoDB.
        OdmError: the table cannot be described or read.
    """
    backend, prefix = backend_at(location)
    if not isinstance(backend, DynamoDB):
        raise BadUsage(f"{location!r}: odm inspect reads tables on DynamoDB: write dynamodb:REGION")
    connection = backend.connect(Schema(name=prefix + table, entities={}, indexes={}))
    try:
        steps = _read(prefix + table, sample)
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
        items += response["Items"]
        if not response.get("LastEvaluatedKey"):
            break
        start = {"ExclusiveStartKey": response["LastEvaluatedKey"]}
    return facts_of(described["Table"], ttl["TimeToLiveDescription"], tuple(items))
