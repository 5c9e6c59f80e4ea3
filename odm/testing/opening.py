"""`OpenStore`, the type of the fixtures ``odm_memory`` and ``odm_file``: opens stores for one test."""

from typing import Any, overload

from odm import AsyncStore, Backend, Store, Table


class OpenStore:
    """Opens stores on one backend: a call creates the table and returns a store of it.

    All stores of a test share the same data. They are closed when the test ends.

    Attributes:
        backend: the backend of the tables.
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
        """Create the table and open a store of it.

        Args:
            table: the table of your entities.
            kind: `odm.AsyncStore` for an async store.
            options: the options of the store, such as ``cursor_secret``.
        """
        with Store(table, self.backend, **options) as store:
            store.create()  # blocks, also for async stores: no event loop runs while fixtures are made
        opened = kind(table, self.backend, **options)
        self._opened.append(opened)
        return opened

    def close(self) -> None:
        """Close all opened stores."""
        while self._opened:
            connection = self._opened.pop()._disconnect()
            if connection is not None:
                connection.close()  # closing a connection of the bundled engine needs no event loop
