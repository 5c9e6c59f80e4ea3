"""DynamoDB: one table a schema, secondary patterns on global secondary indexes.

The flow, a file a step: `schema` (Schema → layout of the table) → `requests` (IR → native requests; `batches` and
`tables` hold the procedures of many steps, `expressions` and `ranges` the texts) → `driver` (I/O, over the clients
of `clients`) → `wire` (bytes → attributes) → `loading` (attributes → entities, by the code of `generate`; `codec` and
`attributes` hold what is between the two); `errors` turns what goes wrong into `odm.errors`.
`streams` stands apart: it decodes the records of a table's stream.
"""

from odm.backends.dynamodb.driver import DynamoDB
from odm.backends.dynamodb.options import Provisioned

__all__ = ["DynamoDB", "Provisioned"]
