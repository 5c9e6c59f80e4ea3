"""Items in a backend's form, decoded only when they are read.

Most items of a page are never decoded: entities are made directly from the backend's form if the result is the same.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

P = TypeVar("P")
T = TypeVar("T")


class Lazy(Sequence[T], Generic[P, T]):
    """A sequence whose members are made from their parts at every access.

    Args:
        parts: one per member.
        make: returns the member of a part.
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


class LazyDict(Mapping[str, Any]):
    """A mapping that is made when it is first read."""

    __slots__ = ("_content",)

    def __init__(self) -> None:
        self._content: dict[str, Any] | None = None

    @abstractmethod
    def _make(self) -> dict[str, Any]: ...

    @property
    def content(self) -> dict[str, Any]:
        """The mapping as a dict."""
        if self._content is None:
            self._content = self._make()
        return self._content

    def __getitem__(self, name: str) -> Any:
        return self.content[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)

    def __repr__(self) -> str:
        return repr(self.content)


class NativeItem(LazyDict):
    """A stored item in its backend's form: a mapping of attributes that is decoded when it is read."""

    __slots__ = ()

    @abstractmethod
    def load(self) -> Any:
        """The entity; None if the item must be decoded to find its entity or its fault."""

    def forget(self) -> None:
        """Drop the decoded form, whose mutable parts now belong to an entity; the next reading decodes it again."""
        self._content = None


class NativeItems(Lazy[P, NativeItem]):
    """A page of stored items in their backend's form."""

    __slots__ = ()

    @abstractmethod
    def load_all(self) -> list[Any] | None:
        """The entities of the page; None if an item of it must be loaded alone."""

    @property
    def misread(self) -> Sequence[int]:
        """The numbers of the items with a value that cannot be compared, because its bytes have another form.

        They pass every filter that looks at it, so that their reader reports them.
        """
        return ()
