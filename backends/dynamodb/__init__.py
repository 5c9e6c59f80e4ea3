"""DynamoDB: one table per schema; further access patterns use global and local secondary indexes.

The data flow, one step per file:

* `schema`: Schema → table layout, with the user's `options`.
* `requests`: request → native requests, defined in `native`. `writes`, `batches`, `transactions`, `projections` and
  `tables` hold the generators; `expressions` and `ranges` write the expressions.
* `driver`: all I/O, through the clients of `clients`, whose settings are in `retry`, `savings`, `profiles`, `sessions`.
* `transports` chooses between these clients and the lean transport, which is the default where nothing forbids it:
  `routes` reads the settings, from botocore's session or from the `environment` alone, `lean` prepares and `signing`
  signs requests, `tls` secures connections, and the HTTP libraries `http_...` send them.
* `wire`: writes requests and reads responses as JSON, in place of botocore's serializer and parser.
* `loading`: attributes → entities, with code from `generate`. `codec` and `attributes` convert single values.
* `feed` reads the table's stream, through clients of its own API; `stream_records` reads the records.
* `errors` translates failures into `odm.errors`, and `units` reads the consumed capacity.

Outside this flow, `streams` serves Lambda functions, which get the records of a stream, and `admin` serves the command
line: it applies the differences that `changes` finds between the layout and the existing table.
"""

from odm.backends.dynamodb.client.native import Provisioned, TableOptions
from odm.backends.dynamodb.driver import DynamoDB

__all__ = ["DynamoDB", "Provisioned", "TableOptions"]
