"""`Procedure`: the steps of a generator function, ready for ``db.run(...)``."""

from collections.abc import Callable, Generator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from odm._published import public
from odm.entities.query import Finding
from odm.errors import BadValue, brief
from odm.immutable import Immutable
from odm.protocol.connection import CoreGen

if TYPE_CHECKING:
    from odm.procedures.calls import Calls

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@public
class Procedure(Finding, Immutable, Generic[R_co]):
    """The result of calling a `procedure` function: its steps, ready for ``db.run(...)``."""

    steps: "Callable[[Calls], CoreGen[R_co]]"
    text: str = ""

    def __call__(self, do: "Calls") -> CoreGen[R_co]:
        """The generator of the steps, on a store. A procedure runs another one with ``yield from other(do)``."""
        return self.steps(do)

    def __repr__(self) -> str:
        return self.text


@public
def procedure(steps: "Callable[Concatenate[Calls, P], CoreGen[R]]") -> Callable[P, Procedure[R]]:
    """Make a procedure from a generator function whose first parameter is the `Calls` of the store that runs it.

    ::

        @procedure
        def rename(do: Calls, key: Query[Customer], name: str) -> Gen[str]:
            customer = yield from do.one(key)
            yield from do.update(customer, set_(Customer.name, name))
            return customer.name


        db.run(rename(Customer.primary(customer_id="c1"), "Ann"))  # await db.run(...), of an AsyncStore

    Args:
        steps: the generator function.

    Returns:
        A function that takes the other parameters and returns a `Procedure`.
    """

    @wraps(steps)
    def make(*args: P.args, **kwargs: P.kwargs) -> Procedure[R]:
        given = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        return Procedure(lambda do: steps(do, *args, **kwargs), f"{steps.__name__}({', '.join(given)})")

    return make


def whole_procedure(made: Procedure[R], consistent: bool, key: Mapping[str, Any], only: object = None) -> Procedure[R]:
    """A procedure passed in place of a key; raises BadValue for arguments that are only allowed with a key."""
    for name, given in {"consistent": not consistent, "only": only is not None, **dict.fromkeys(key, True)}.items():
        if given:
            raise BadValue(f"{made} is a procedure, which has its own {name}: leave {name}= out")
    return made


def started(made: "Callable[[Calls], CoreGen[R]]", do: "Calls") -> CoreGen[R]:
    """The generator of the steps that ``db.run(...)`` runs.

    Raises:
        TypeError: the argument does not return a generator.
    """
    steps = made(do) if callable(made) else None
    if not isinstance(steps, Generator):
        raise TypeError(
            f"run({brief(made)}): give what a @procedure makes when it is called, as in run(rename(key, 'Ann'))"
        )
    return steps
