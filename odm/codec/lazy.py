"""`Lazy`: what a page of a backend holds, made only when it is looked at, because most of it never is."""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, overload

P = TypeVar("P")
T = TypeVar("T")


class Lazy(Sequence[T], Generic[P, T]):
    """A sequence whose members are made from their parts, anew each time they are asked for.

    Args:
        parts: one for each member.
        make: a part to its member.
    """

    __slots__ = ("_make", "parts")

    def __init__(self, parts: Sequence[P], make: Callable[[P], T]) -> None:
        self.parts = parts
        self._make = make

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[T]:
        return map(self._make, self.parts)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...
    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        return list(map(self._make, self.parts[place])) if isinstance(place, slice) else self._make(self.parts[place])

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return repr(list(self))
