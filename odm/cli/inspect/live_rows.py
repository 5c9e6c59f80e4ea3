"""The facts of a live table on Bigtable."""

from odm import BackendError, BadValue
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.admin.commands import SECONDS
from odm.backends.bigtable.admin.misfits import describe
from odm.backends.bigtable.client.retry import Retry
from odm.cli.inspect.bigtable import RowFacts
from odm.cli.usage import BadUsage
from odm.codec.types.stored import show
from odm.protocol.connection import run
from odm.schema.checks import NAMES, is_name
from odm.schema.model import Schema


def row_facts(backend: Bigtable, table: str, sample: int) -> RowFacts:
    """The facts of a table.

    Args:
        backend: the instance.
        table: its name.
        sample: the maximum number of rows to read.

    Raises:
        BadUsage: a table cannot have this name.
        OdmError: the table does not exist, or cannot be described or read.
    """
    if not is_name(table):
        raise BadUsage(f"{show(table)} cannot name a table: a name has {NAMES}")
    connection = backend.connect(Schema(name=table, entities={}, indexes={}))
    try:
        families, rows = run(describe(table, sample, Retry(overall=SECONDS)), connection.call)
    finally:
        connection.close()
    try:
        return RowFacts(table, families, tuple(rows))
    except BadValue as error:
        raise BackendError(f"the endpoint does not answer as Bigtable: {error}: check its address") from error
