"""A server on this machine that stands in for a cloud, for benchmarks that run odm on several of them."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from attrs import frozen

from benchmarks.services import Speaking, Unavailable
from odm import Backend
from odm.backends.bigtable import Bigtable
from tests import servers


def bigtable(address: str, *, transactions: bool | None = None) -> Backend:
    """Odm's backend on an emulator."""
    return Bigtable("project", "instance", endpoint=address, transactions=transactions)


def dynamodb(address: str) -> Backend:
    """Odm's backend on a server at an address."""
    service = Speaking()
    service.endpoint_url = address
    return service.backend()


with_transactions = partial(bigtable, transactions=True)
without_transactions = partial(bigtable, transactions=False)


@frozen
class StandIn:
    """A server.

    Attributes:
        name: as the tables show it.
        find: finds the server's program.
        running: runs it, and gives its address.
        backend: odm's backend on it.
    """

    name: str
    find: servers.Find
    running: Callable[[Path], AbstractContextManager[str]]
    backend: Callable[[str], Backend]

    def found(self) -> Path:
        """The program.

        Raises:
            Unavailable: it is not installed.
        """
        try:
            return self.find(os.environ)
        except servers.Missing as missing:
            raise Unavailable(str(missing)) from missing
