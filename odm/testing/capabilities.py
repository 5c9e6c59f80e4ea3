"""What a backend says of itself to the suite: flags for what it refuses, reasons for what its service gets wrong."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import pytest
from attrs import Factory, frozen

from odm.errors import Unsupported

Flag: TypeAlias = Literal["conditions", "indexes", "retry_safe", "segment", "segments", "transactions", "updates"]

T = TypeVar("T", bound=Callable[..., Any])


@frozen
class Capabilities:
    """What a backend can do. A feature that is False is expected to raise `odm.Unsupported` wherever it is used.

    Attributes:
        conditions: writes may have any condition: ``when=``, a Revision, inserts and deletes of what expires. Without,
            only `insert` and writes without a condition work.
        indexes: secondary patterns. Without, a table that has one is refused.
        segment: scans of one part, which the workers of several processes share among them.
        segments: scans in parts that are read together.
        retry_safe: updates that are sent again when their answer was lost, and done once all the same.
        transactions: several items are written together or not at all. Without, the second operation of a transaction
            is refused at its call, and one of a single operation works.
        updates: `update` and all its actions.
        units: a meter knows what was read and written, and not only what was sent and answered;
            and a write is one call.
        faults: what the *service behind* the backend is known to get wrong: name of a test to the reason. The test must
            fail, so that the entry goes when the service is fixed.
    """

    conditions: bool = True
    indexes: bool = True
    retry_safe: bool = True
    segment: bool = True
    segments: bool = True
    transactions: bool = True
    updates: bool = True
    units: bool = True
    faults: Mapping[str, str] = Factory(dict)


def needs(*flags: Flag) -> Callable[[T], T]:
    """Marks a test, or all tests of a class, that use features which a backend may refuse.

    Where one of the flags is False, the test passes by raising `odm.Unsupported`, and in no other way.
    """

    def decorate(target: T) -> T:
        marked: object = target
        if not isinstance(marked, type):
            return _flagged(target, flags)
        for name, member in list(vars(marked).items()):
            if name.startswith("test"):
                setattr(marked, name, _flagged(member, flags))
        return target

    assert set(flags) <= set(get_args(Flag))
    return decorate


def _flagged(test: T, flags: tuple[Flag, ...]) -> T:
    test, inner = getattr(test, "__odm_needs__", (test, ()))  # one of a class that is marked as a whole too
    flags = (*inner, *flags)
    own = list(signature(test).parameters.values())
    given = any(parameter.name == "capabilities" for parameter in own)

    @wraps(test)
    def run(*args: Any, capabilities: Capabilities, **kwargs: Any) -> None:
        passed = {**kwargs, "capabilities": capabilities} if given else kwargs
        if all(getattr(capabilities, flag) for flag in flags):
            test(*args, **passed)
            return
        with pytest.raises(Unsupported):
            test(*args, **passed)

    # pytest asks for the fixtures that the signature names.
    parameters = own if given else [*own, Parameter("capabilities", Parameter.KEYWORD_ONLY)]
    run.__signature__ = signature(test).replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__odm_needs__ = (test, flags)  # type: ignore[attr-defined]
    return run  # type: ignore[return-value]
