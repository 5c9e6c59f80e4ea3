"""DynamoDB: one table a schema, secondary patterns on its global and local secondary indexes.

The flow, a file a step: `schema` (Schema → layout of the table, with its `options`) → `requests` (request → native
requests, which are values of `native`; `writes`, `batches`, `transactions`, `projections` and `tables` hold the
generators, `expressions` and `ranges` the texts) → `driver` (I/O, over the clients of `clients`, whose settings are in
`retry`, `savings`, `profiles` and `sessions`) → `wire` (the JSON of requests and answers, past botocore's serializer
and parser) → `loading` (attributes → entities, by the code of `generate`; `codec` and `attributes` hold what
is between the two); `errors` turns what goes wrong into `odm.errors`, and `units` reads what was consumed.

Two stand apart: `streams` decodes the records of a table's stream, and `admin` does for the command line what
`changes` finds between the layout and the table as it is.
"""

from odm.backends.dynamodb.driver import DynamoDB
from odm.backends.dynamodb.options import Provisioned

__all__ = ["DynamoDB", "Provisioned"]
