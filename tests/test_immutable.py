"""The data classes of `odm.immutable`: what they add to the structs of msgspec, and what odm relies on."""

import copy
import inspect
import pickle
import weakref
from abc import abstractmethod
from functools import cached_property
from typing import Any, Generic, TypeVar

import pytest

import odm
from odm.extend import Effect
from odm.immutable import Abstract, Immutable, evolve, field

T = TypeVar("T")


class Node(Immutable):
    name: str
    parts: tuple[int, ...] = ()


class Leaf(Node):
    cached: int = field(default=0, eq=False, repr=False)


class Range(Immutable, Generic[T]):
    low: T
    high: T = field(repr=False)


class Same(Immutable, eq=False):
    number: int


class Noted(Immutable, kw_only=True):
    note: str = field(default="", eq=False, repr=False)
    others: list[Any] = field(factory=list)


class Spelt(Range[str], dict=True):
    word: str

    @cached_property
    def length(self) -> int:
        return len(self.word)


class Named(Noted):
    name: str

    def __repr__(self) -> str:
        return "named"


class Shape(Abstract):
    @abstractmethod
    def area(self) -> int: ...


class Square(Shape):
    side: int

    def area(self) -> int:
        return self.side**2


def test_values_are_compared_hashed_and_printed() -> None:
    assert Node("a", (1,)) == Node("a", (1,)) != Node("a")
    assert hash(Node("a")) == hash(Node("a"))
    assert {Node("a"): 1}[Node("a")] == 1
    assert (repr(Node("a")), repr(Range(1, 2))) == ("Node(name='a', parts=())", "Range(low=1)")
    assert Range(1, 2).__eq__((1, 2)) is NotImplemented


def test_a_subclass_has_the_options_of_inherited_fields() -> None:
    assert Leaf("a", (), 1) == Leaf("a", (), 2)
    assert Leaf("a") != Node("a") != Leaf("a")
    assert (repr(Leaf("a")), repr(Spelt("a", "b", "c"))) == ("Leaf(name='a', parts=())", "Spelt(low='a', word='c')")
    assert Named("a", note="x") == Named("a", note="y") != Named("b")
    assert hash(Leaf("a", (), 1)) == hash(Leaf("a", (), 2))
    assert (repr(Named("a")), repr(Noted(note="x"))) == ("named", "Noted(others=[])")
    assert Noted().others is not Noted().others


def test_a_class_without_equality_compares_identity() -> None:
    assert Same(1) != Same(1)
    assert repr(Same(1)) == "Same(number=1)"
    assert len({Same(1), Same(1)}) == 2


def test_a_value_that_holds_itself_is_printed() -> None:
    inner: list[Any] = []
    noted = Noted(others=inner)
    inner.append(noted)
    assert repr(noted) == "Noted(others=[...])"


def test_they_are_copied_pickled_and_changed() -> None:
    node, values = Node("a", (1,)), Range(1, 2)
    for value in (node, values):
        assert copy.deepcopy(value) == copy.copy(value) == pickle.loads(pickle.dumps(value)) == value
        assert weakref.ref(value)() is value
    assert evolve(node, name="b") == Node("b", (1,))
    assert Node.__match_args__ == ("name", "parts")


def test_nothing_changes_them() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        Node("a").name = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Node()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Noted("x")  # type: ignore[call-arg]


def test_what_is_computed_is_computed_anew_for_a_changed_value() -> None:
    spelt = Spelt("a", "b", "word")
    assert (spelt.length, evolve(spelt, word="longer").length) == (4, 6)


def test_an_abstract_method_must_be_defined() -> None:
    assert Square(3).area() == 9
    with pytest.raises(TypeError, match="abstract"):
        Shape()  # type: ignore[abstract]


def test_a_signature_needs_no_name_that_is_loaded_later() -> None:
    assert list(inspect.signature(odm.Query).parameters)[:3] == ["entity", "pattern", "values"]
    assert inspect.signature(Effect).parameters["key"].annotation == "Query[Any]"
