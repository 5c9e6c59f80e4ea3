"""What a fact is: something done through odm, its outcome on AWS, and who says so.

The tables of facts are the modules next to this one. `tests/facts/test_facts.py` asks every server for every fact, and
``python -m tests.facts.page`` writes docs/facts.md from them.

A source is one of:

* "S folder/file": a public conformance suite, whose expectations were recorded on AWS, has it in this file, or the
  rule that it is an example of;
* "D page": this page of AWS's developer guide says so;
* "L": DynamoDB Local does so, and nobody is known to have asked AWS.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from attrs import Factory, frozen

from odm import Query, Store
from odm.observe.meter import Meter
from tests.facts.model import Thing

SERVERS: Final = ("Memory", "LocalFile", "DynamoDB Local", "Dynoxide")


@frozen
class Case:
    """Where a fact is tried.

    Attributes:
        db: a store of the table.
        id: the beginning of the partitions of this fact, which no other fact uses.
    """

    db: Store
    id: str

    @property
    def key(self) -> Query[Thing]:
        return Thing.primary(id=self.id)

    def thing(self, x: Any = None, y: Any = None, z: Any = None) -> Thing:
        return Thing(id=self.id, x=x, y=y, z=z)

    def used(self, call: Callable[[], object]) -> Meter:
        """What a call uses."""
        with self.db.meter() as meter:
            call()
        return meter


@frozen
class Fact:
    """Something done, and its outcome on AWS.

    Attributes:
        text: what is done, for the page and for the name of the test.
        outcome: what it returns, or the class of the error that it raises.
        source: who says so; see above.
        ask: does it, with ``given`` after the case.
        wrong: the servers with another outcome, and why; their tests must fail.
    """

    text: str
    outcome: Any
    source: str
    ask: Callable[..., Any]
    given: tuple[Any, ...] = ()
    wrong: Mapping[str, str] = Factory(dict)


def fact(
    text: str,
    outcome: Any,
    source: str,
    ask: Callable[..., Any],
    *given: Any,
    wrong: Mapping[str, str] = MappingProxyType({}),
) -> Fact:
    """A fact on one line."""
    return Fact(text, outcome, source, ask, given, wrong)


def shown(value: object) -> str:
    """A value as Python code, on one line of at most 40 characters; the same in each run."""
    match value:
        case None:
            return "nothing"
        case set():
            text = f"{{{', '.join(sorted(map(shown, value)))}}}"
        case list():
            text = f"[{', '.join('None' if part is None else shown(part) for part in value)}]"
        case dict():
            text = (
                f"{{{', '.join(f'{key!r}: {part if part is None else shown(part)}' for key, part in value.items())}}}"
            )
        case Decimal():
            text = str(value)
        case _:
            text = ascii(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def shown_node(node: object) -> str:
    """A condition or actions on one line of at most 80 characters."""
    text = str(node).encode("ascii", "backslashreplace").decode()
    return text if len(text) <= 80 else f"{text[:77]}..."


def local(reason: str) -> Mapping[str, str]:
    """DynamoDB Local has another outcome."""
    return {"DynamoDB Local": reason}


def dynoxide(reason: str) -> Mapping[str, str]:
    """Dynoxide has another outcome."""
    return {"Dynoxide": reason}
