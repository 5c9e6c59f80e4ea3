"""Keeps programs whose models do not say ``transactions=True`` from a table that has transactions.

Their writes would not look at locks, and their reads would show states that were never committed. So a connection of
such a program looks once, before its first call for data, whether the table has records of transactions. In a table
without, the server answers NOT_FOUND.
"""

import logging
from typing import Final

from grpc import StatusCode

from odm.backends.bigtable.errors import NATIVE_FAILURES, status
from odm.backends.bigtable.filters import First
from odm.backends.bigtable.locks import record_table
from odm.backends.bigtable.native import Call, Native, Read, ReadRows, Steps
from odm.backends.bigtable.native_admin import AdminCall
from odm.backends.bigtable.retry import Retry, pause
from odm.errors import Unsupported

_LOG = logging.getLogger("odm.bigtable")

_NONE: Final = (StatusCode.NOT_FOUND, StatusCode.PERMISSION_DENIED)


class Gate:
    """Whether a connection may use its table.

    Args:
        table: the items' table.
        transactions: the models say ``transactions=True``.
    """

    def __init__(self, table: str, *, transactions: bool) -> None:
        self._table = table
        self._open = transactions

    def is_closed(self, native: Native) -> bool:
        """Whether `look` must be called before this native request."""
        return not self._open and isinstance(native, Call) and not isinstance(native, AdminCall)

    def look(self, retry: Retry) -> Steps[None]:
        """Look for records of transactions.

        Raises:
            Unsupported: there are some.
            OdmError: the server does not answer.
        """
        records = record_table(self._table)
        call = ReadRows(records, limit=1, filter=First(1))
        pauses = retry.pauses()
        while True:
            try:
                read: Read = yield call
                failure = read.failure
            except NATIVE_FAILURES as error:
                failure = error
            if failure is None:
                raise Unsupported(
                    f"table {self._table!r} has transactions, as its table {records!r} shows, and a program that does "
                    "not know must not use it: say Table(..., transactions=True), and update odm if it does not know "
                    "that option"
                )
            if status(failure) in _NONE:
                if status(failure) is StatusCode.PERMISSION_DENIED:
                    _LOG.info("this program may not read table %s, if there is one", records)
                self._open = True
                return
            call = yield from pause(pauses, failure, call)
