"""The bases of data classes that nobody can change: `Immutable`, and `Abstract` for those with abstract methods.

Their subclasses are structs of msgspec: annotations are fields, and the constructor, ``==``, ``hash()`` and ``repr()``
are written in C. A program makes 280 of these classes before its first call, and each call a dozen of their values. To
make a class of attrs takes ten times as long, and a value twice.

`field` is for what a plain default cannot say. What is computed from the fields is a ``cached_property``, for which a
class says ``dict=True``; `evolve` copies the fields and not what was computed from them.
"""

import sys
from abc import ABCMeta
from collections.abc import Callable
from inspect import Parameter, Signature
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, dataclass_transform, overload

import msgspec
from msgspec import NODEFAULT, Struct, StructMeta
from msgspec.structs import force_setattr
from msgspec.structs import replace as evolve


class _Field(NamedTuple):
    default: Any
    eq: bool
    repr: bool


T = TypeVar("T")


@overload
def field(*, default: T, eq: bool = True, repr: bool = True, kw_only: bool = ...) -> T: ...
@overload
def field(*, factory: Callable[[], T], eq: bool = True, repr: bool = True, kw_only: bool = ...) -> T: ...
@overload
def field(*, eq: bool = True, repr: bool = True, kw_only: bool = ...) -> Any: ...
def field(
    *, default: Any = NODEFAULT, factory: Any = NODEFAULT, eq: bool = True, repr: bool = True, kw_only: bool = False
) -> Any:
    """A field with options.

    Args:
        default: the default value.
        factory: makes the default value of each instance.
        eq: it counts for ``==`` and ``hash()``.
        repr: it is printed.
        kw_only: type checkers refuse it as a positional argument. At run time, only ``kw_only=True`` of a class does.
    """
    options: dict[str, Any] = {"default": default, "default_factory": factory}
    value = msgspec.field(**options)
    return value if eq and repr else _Field(value, eq, repr)


class _Meta(StructMeta):
    """Adds to the structs of msgspec that a field is not compared or not printed."""

    __unequal__: frozenset[str]
    __unprinted__: frozenset[str]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> Any:
        options = {key: value for key, value in namespace.items() if type(value) is _Field}
        cls = super().__new__(
            mcs, name, bases, namespace | {key: option.default for key, option in options.items()}, **config
        )
        if options:
            cls.__unequal__ |= {key for key, option in options.items() if not option.eq}
            cls.__unprinted__ |= {key for key, option in options.items() if not option.repr}
        own: Any = cls
        if cls.__unequal__ and own.__hash__ in _HASHES and cls.__struct_config__.eq:
            names = [key for key in cls.__struct_fields__ if key not in cls.__unequal__]
            own.__eq__, own.__hash__ = _comparison(names)
            _HASHES.add(own.__hash__)
        if cls.__unprinted__ and own.__repr__ is Struct.__repr__:
            own.__repr__ = _repr
        return cls

    @property
    def __signature__(cls) -> Signature:
        """The constructor's. Annotations stay as written: what they name may be loaded later than the class."""
        hints = {name: hint for base in reversed(cls.__mro__) for name, hint in _annotations(base).items()}
        defaults = (
            *[NODEFAULT] * (len(cls.__struct_fields__) - len(cls.__struct_defaults__)),
            *cls.__struct_defaults__,
        )
        return Signature(
            [
                Parameter(
                    name,
                    Parameter.POSITIONAL_OR_KEYWORD if name in cls.__match_args__ else Parameter.KEYWORD_ONLY,
                    default=Parameter.empty if default is NODEFAULT else default,
                    annotation=hints.get(name, Parameter.empty),
                )
                for name, default in zip(cls.__struct_fields__, defaults, strict=True)
            ]
        )


def _annotations(cls: type) -> dict[str, Any]:
    """What a class itself annotates. Python 3.14 evaluates it when it is asked for, and the class has no dict of it."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return get_annotations(cls, format=Format.FORWARDREF)
    annotations: dict[str, Any] = vars(cls).get("__annotations__", {})
    return annotations


class _AbstractMeta(_Meta, ABCMeta):
    """Of its own, because ``isinstance`` takes twice as long for an abstract class."""


_HASHES: Final[set[Any]] = {Struct.__hash__}


def _comparison(names: list[str]) -> tuple[Any, Any]:
    values: Any = attrgetter(*names) if names else lambda self: ()

    def equal(self: Any, other: object) -> bool:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    return equal, lambda self: hash(values(self))


@recursive_repr()
def _repr(self: Any) -> str:
    printed = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in self.__unprinted__)
    return f"{type(self).__name__}({', '.join(printed)})"


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Immutable(Struct, frozen=True, weakref=True, metaclass=_Meta):
    """A data class that nobody can change. Caches of generated code use instances as weak keys."""

    __unequal__: ClassVar[frozenset[str]] = frozenset()
    __unprinted__: ClassVar[frozenset[str]] = frozenset()


class Abstract(Immutable, metaclass=_AbstractMeta):
    """A data class that nobody can change, with abstract methods."""


__all__ = ["Abstract", "Immutable", "evolve", "field", "force_setattr"]
