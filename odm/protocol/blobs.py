"""Requests to the folder of blobs of a store; see `odm.codec.blobs`. No backend gets them: they are answered here.

With an `odm.AsyncStore` each runs in a thread.
"""

import time
from abc import abstractmethod
from collections.abc import Iterator
from hashlib import sha256
from typing import Protocol

from attrs import field, frozen

from odm.protocol.requests import Wait


class BlobFolder(Protocol):
    """The blobs of one table. A name is written once; each method raises BackendError if the service fails."""

    def write(self, name: str, data: bytes) -> None:
        """Store a blob; it is durable when this returns."""
        ...

    def read(self, name: str) -> bytes | None:
        """The content of a blob; None if it does not exist."""
        ...

    def remove(self, name: str) -> None:
        """Remove a blob; no error if it does not exist."""
        ...

    def names(self) -> Iterator[tuple[str, float]]:
        """The name of every blob, and when it was written, in seconds since the epoch."""
        ...


@frozen
class BlobRequest(Wait):
    """A request to a folder of blobs."""

    folder: BlobFolder = field(repr=False)

    @abstractmethod
    def wait(self) -> object: ...

    async def wait_async(self) -> object:
        import asyncio  # slow to import, and few programs need it

        return await asyncio.to_thread(self.wait)


@frozen
class WriteBlob(BlobRequest):
    """Store a blob under a new name. Response: None."""

    name: str
    data: bytes = field(repr=False)

    def wait(self) -> None:
        self.folder.write(self.name, self.data)


@frozen
class Content:
    """The content of a blob, and its SHA-256 in hexadecimal."""

    data: bytes = field(repr=False)
    sha256: str


@frozen
class ReadBlob(BlobRequest):
    """Read a blob. Response: its `Content`; None if it does not exist."""

    name: str

    def wait(self) -> Content | None:
        data = self.folder.read(self.name)
        return None if data is None else Content(data, sha256(data).hexdigest())


@frozen
class RemoveBlob(BlobRequest):
    """Remove a blob; no error if it does not exist. Response: None."""

    name: str

    def wait(self) -> None:
        self.folder.remove(self.name)


@frozen
class ListBlobs(BlobRequest):
    """The names of the blobs that were written at least ``age`` seconds ago. Response: a list.

    By the time of the computer: the clock of a store is for expiry, and a test may have set it.
    """

    age: float

    def wait(self) -> list[str]:
        before = time.time() - self.age
        return [name for name, written in self.folder.names() if written <= before]
