"""The data classes of `odm.immutable` are attrs's: only when their methods are generated differs."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import attrs
import pytest

from odm.immutable import frozen, immutable

T = TypeVar("T")


@immutable
class Node:
    name: str
    parts: tuple[int, ...] = ()


@immutable(repr=False)
class Leaf(Node):
    cached: int = attrs.field(default=0, eq=False, repr=False)


@frozen
class Range(Generic[T]):
    low: T
    high: T = attrs.field(repr=False)


@frozen(eq=False)
class Same:
    number: int


@frozen(kw_only=True, slots=False)
class Spelt(Range[str]):
    word: str = attrs.field(eq=str.casefold)


@attrs.frozen
class Attrs:
    low: int
    high: int = attrs.field(repr=False)


def test_values_are_compared_hashed_and_printed() -> None:
    assert Node("a", (1,)) == Node("a", (1,)) != Node("a")
    assert hash(Node("a")) == hash(Node("a"))
    assert {Node("a"): 1}[Node("a")] == 1
    assert (repr(Node("a")), repr(Range(1, 2))) == ("Node(name='a', parts=())", "Range(low=1)")
    assert Range(1, 2).__eq__((1, 2)) is NotImplemented


def test_a_subclass_has_its_own_methods_whichever_class_is_used_first() -> None:
    assert Leaf("a", (), 1) == Leaf("a", (), 2)
    assert Leaf("a") != Node("a") != Leaf("a")
    assert repr(Leaf("a")) == "Leaf(name='a', parts=())"
    assert Spelt(low="a", high="b", word="X") == Spelt(low="a", high="b", word="x")
    assert hash(Spelt(low="a", high="b", word="X")) == hash(Spelt(low="a", high="b", word="x"))
    assert Spelt(low="a", high="b", word="X") != Spelt(low="a", high="c", word="X")


def test_a_class_without_equality_compares_identity() -> None:
    assert Same(1) != Same(1)
    assert repr(Same(1)) == "Same(number=1)"
    assert len({Same(1), Same(1)}) == 2


def test_a_plain_subclass_has_the_methods_of_its_base() -> None:
    class Plain(Range[Any]):
        pass

    assert Plain(1, 2) == Plain(1, 2) != Range(1, 2)
    assert repr(Plain(1, 2)) == "Plain(low=1)"


def test_they_are_copied_pickled_and_changed_as_those_of_attrs() -> None:
    node, values = Node("a", (1,)), Range(1, 2)
    for value in (node, values):
        assert copy.deepcopy(value) == copy.copy(value) == pickle.loads(pickle.dumps(value)) == value
    assert attrs.evolve(node, name="b") == Node("b", (1,))
    assert [field.name for field in attrs.fields(Leaf)] == ["name", "parts", "cached"]
    assert Node.__match_args__ == ("name", "parts")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        values.low = 3  # type: ignore[misc]


def test_the_generated_methods_are_those_of_attrs() -> None:
    assert (Range(1, 2) == Range(1, 2), Range(1, 2) == Range(1, 3)) == (True, False)
    for name in ("__eq__", "__hash__", "__repr__"):
        assert getattr(Range, name).__code__.co_code == getattr(Attrs, name).__code__.co_code


def test_threads_get_one_hash() -> None:
    def hashes() -> set[int]:
        @immutable
        class Fresh:
            number: int

        value = Fresh(1)
        with ThreadPoolExecutor(8) as threads:
            return set(threads.map(lambda _: hash(value), range(16)))

    assert [len(hashes()) for _ in range(20)] == [1] * 20


def test_own_methods_must_be_said() -> None:
    with pytest.raises(TypeError, match="has a __repr__ of its own"):

        @immutable
        class Node:
            def __repr__(self) -> str:
                return "own"
