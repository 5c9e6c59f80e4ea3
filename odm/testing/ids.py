"""Ids that are the same in every run of a test."""

from random import Random
from threading import Lock
from uuid import UUID


class Ids:
    """Makes the same UUIDs in the same order in every run: a call returns the next one, `text` returns it as text.

    Use it in place of ``uuid4`` where your application makes ids::

        new_id: Callable[[], UUID] = (
            uuid4  # in the application, called by name: Field(default_factory=lambda: new_id())
        )
        monkeypatch.setattr(application, "new_id", Ids())  # in its tests

    To repeat the random numbers of odm itself, use ``Store(..., random=random.Random(7))``. Thread-safe.

    Args:
        seed: each seed makes other ids.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)
        self._lock = Lock()

    def __call__(self) -> UUID:
        with self._lock:
            return UUID(int=self._random.getrandbits(128), version=4)

    def text(self) -> str:
        """The next id as text of 36 characters, such as "e3e70682-c209-4cac-a29f-6fbed82c07cd"."""
        return str(self())
