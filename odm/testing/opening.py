"""What the fixtures ``odm_memory`` and ``odm_file`` are: opens stores for one test."""

from typing import Any, overload

from odm.protocol.connection import Backend
from odm.schema.table import Table
from odm.stores.asynchronous import AsyncStore
from odm.stores.sync import Store


class OpenStore:
    """Opens stores on one backend: a call creates the table and gives a store of it.

    Stores that one test opens see the same data. They are closed when the test ends.

    Attributes:
        backend: where the tables are.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._opened: list[Store | AsyncStore] = []

    @overload
    def __call__(self, table: Table, **options: Any) -> Store: ...
    @overload
    def __call__(self, table: Table, kind: type[AsyncStore], **options: Any) -> AsyncStore: ...
    def __call__(
        self, table: Table, kind: type[Store] | type[AsyncStore] = Store, **options: Any
    ) -> Store | AsyncStore:
        """Open a store whose table is created.

        Args:
            table: the table of your entities.
            kind: `odm.AsyncStore` for an async one.
            options: those of the store, such as ``cursor_secret``.
        """
        with Store(table, self.backend, **options) as store:
            store.create()  # blocking sync and async: an event loop is not needed, nor ready, where fixtures are made
        opened = kind(table, self.backend, **options)
        self._opened.append(opened)
        return opened

    def close(self) -> None:
        """Close all stores that were opened."""
        while self._opened:
            connection = self._opened.pop()._disconnect()
            if connection is not None:
                connection.close()  # the connections of the bundled engine need no event loop to be closed
