"""DynamoDB: one table per schema; further access patterns use global and local secondary indexes.

The data flow, one step per file:

* `items.layout`: Schema → table layout, with the user's options.
* `requests`: request → native requests, defined in `client.native`. `writes`, `batches`, `transactions`, `projections`
  and `tables` hold the generators; `expressions` and `key_conditions` write the expressions.
* `driver`: all I/O, through the vendor's clients of `client.clients`, or through the lean transport, which is the
  default where nothing forbids it. `client.transports` chooses, by the settings that `client.routes` reads.
* The lean transport: `client.lean` prepares and `client.signing` signs requests, and ``client.http_...`` send them.
* `client.wire`: writes requests and reads responses as JSON, in place of botocore's serializer and parser.
* `items.loading`: attributes → entities, by generated code. `items.codec` and `items.attributes` convert single values.
* `feed` reads the table's stream, through clients of its own API; `stream_records` reads the records.
* `client.errors` translates failures into `odm.errors`, and `client.units` reads the consumed capacity.

Outside this flow, `streams` serves Lambda functions, which get the records of a stream, and `admin` serves the command
line: it applies the differences between the layout and the existing table that `tables` finds.
"""

from odm.backends.dynamodb.client.native import Provisioned, TableOptions
from odm.backends.dynamodb.driver import DynamoDB

__all__ = ["DynamoDB", "Provisioned", "TableOptions"]
