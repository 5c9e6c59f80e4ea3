"""Requests to the folder of blobs of a store; see `odm.codec.types.blobs`. They are answered here, by no backend.

With an `odm.AsyncStore` each runs in a thread.
"""

import time
from abc import abstractmethod
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple, Protocol

from odm.immutable import Immutable, field
from odm.protocol.requests import TableIdentity, Wait


class Listed(NamedTuple):
    """A blob in a folder: its name, when it was written, in seconds since the epoch, and its bytes."""

    name: str
    written: float
    size: int


class BlobFolder(Protocol):
    """The blobs of one table. A name is written once; each method raises BackendError if the service fails.

    A file in it, the marker, names the table and its database; it is not a blob.
    """

    @property
    def claimed(self) -> bool:
        """Whether `claim` or `check` has seen the marker of the table."""
        ...

    def check(self, table: TableIdentity) -> None:
        """Check that the folder belongs to a table: its marker names it, or there is no marker.

        Raises:
            BadValue: the marker names another table, or is damaged.
        """
        ...

    def claim(self, table: TableIdentity) -> None:
        """As `check`, and write the marker if there is none."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Store a blob; it is durable when this returns."""
        ...

    def read(self, name: str) -> bytes | None:
        """The content of a blob; None if it does not exist."""
        ...

    def remove(self, name: str) -> None:
        """Remove a blob; no error if it does not exist."""
        ...

    def listed(self) -> Iterator[Listed]:
        """Every blob."""
        ...


class BlobRequest(Wait, Immutable):
    """A request to a folder of blobs."""

    folder: BlobFolder = field(repr=False)

    @abstractmethod
    def wait(self) -> object: ...

    async def wait_async(self) -> object:
        import asyncio  # slow to import, and few programs need it

        return await asyncio.to_thread(self.wait)


class WriteBlob(BlobRequest):
    """Store a blob under a new name. Response: None."""

    name: str
    data: bytes = field(repr=False)

    def wait(self) -> None:
        self.folder.write(self.name, self.data)


class Content(Immutable):
    """The content of a blob, and its SHA-256 in hexadecimal."""

    data: bytes = field(repr=False)
    sha256: str


class ReadBlob(BlobRequest):
    """Read a blob. Response: its `Content`; None if it does not exist."""

    name: str

    def wait(self) -> Content | None:
        data = self.folder.read(self.name)
        return None if data is None else Content(data, sha256(data).hexdigest())


class RemoveBlob(BlobRequest):
    """Remove a blob; no error if it does not exist. Response: None."""

    name: str

    def wait(self) -> None:
        self.folder.remove(self.name)


class CheckFolder(BlobRequest):
    """Check that the folder belongs to a table; see `BlobFolder.check`. Response: None."""

    table: TableIdentity

    def wait(self) -> None:
        self.folder.check(self.table)


class ClaimFolder(BlobRequest):
    """The same, and mark the folder as that of the table; see `BlobFolder.claim`. Response: None."""

    table: TableIdentity

    def wait(self) -> None:
        self.folder.claim(self.table)


class Listing(Immutable):
    """The blobs of a folder.

    Attributes:
        old: the bytes of each blob that is old enough, by its name.
        count: the number of all blobs.
    """

    old: dict[str, int]
    count: int


class ListBlobs(BlobRequest):
    """The blobs, with those that were written at least ``age`` seconds ago. Response: a `Listing`.

    By the time of the computer: the clock of a store is for expiry, and a test may have set it.
    """

    age: float

    def wait(self) -> Listing:
        before = time.time() - self.age
        entries = [*self.folder.listed()]
        return Listing({entry.name: entry.size for entry in entries if entry.written <= before}, len(entries))
