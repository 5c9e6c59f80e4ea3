"""Who runs against whom, section by section."""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from statistics import median
from typing import Any, Final

from attrs import Factory, define, frozen

from benchmarks.dynamodb import encoding, ours, pages
from benchmarks.dynamodb.answers import Canned, Loopback, Wire
from benchmarks.dynamodb.contender import Call, Contender
from benchmarks.dynamodb.pages import Page
from benchmarks.timing import Racer, Samples, race

CONTENDERS: Final[Mapping[str, str]] = {
    "odm": "ours:Odm",
    "boto3 resource": "boto:ResourceDicts",
    "boto3 resource + Pydantic": "boto:Resource",
    "boto3 client + Pydantic": "boto:Client",
    "PynamoDB": "pynamo:Pynamo",
    "by hand": "floor:ByHand",
    "odm, async": "ours:AsyncOdm",
    "dynamoxy, async": "dynamoxy_http:Dynamoxy",
    "pydynox": "pydynox_http:Pydynox",
    "pydynox, async": "pydynox_http:AsyncPydynox",
}
"""Modules of this package and their classes, by the names that tables show."""

SYNC: Final = ("odm", "boto3 resource", "boto3 resource + Pydantic", "boto3 client + Pydantic", "PynamoDB")
"""Those that run over botocore, and so can be answered in this process."""

UNLIKE_ORDERS: Final = ("odm", "boto3 resource + Pydantic", "boto3 client + Pydantic")
CALLS: Final[tuple[Call, ...]] = ("get", "put", "query")
FEW: Final = 100
"""Items of a page that comes over HTTP."""


@frozen
class Settings:
    """What to measure, and how long.

    Attributes:
        sections: of `SECTIONS`.
        size: items of a page that is decoded.
        rounds: how often each contender has its turn.
        seconds: how long a turn takes, about.
    """

    sections: Sequence[str]
    size: int
    rounds: int
    seconds: float


@define
class Figures:
    """What a run found.

    Attributes:
        times: microseconds an item, by section, race and contender.
        missing: who did not take part, and why.
    """

    times: dict[str, dict[str, dict[str, Samples]]] = Factory(dict)
    missing: dict[str, str] = Factory(dict)

    def as_json(self) -> dict[str, Any]:
        """Everything, for a program to read; times are medians."""
        times = {
            section: {
                name: {who: {"cpu": median(s.cpu), "wall": median(s.wall)} for who, s in by_name.items()}
                for name, by_name in races.items()
            }
            for section, races in self.times.items()
        }
        return {"microseconds": times, "missing": self.missing}


@frozen
class _Run:
    settings: Settings
    figures: Figures
    section: str

    def race(self, name: str, racers: Mapping[str, Racer]) -> None:
        """Time the racers, and keep what was found."""
        sys.stderr.write(f"... {self.section}: {name}\n")
        gc.collect()
        gc.freeze()  # what was made at the start is nobody's to collect
        found = race(racers, self.settings.rounds, self.settings.seconds)
        self.figures.times.setdefault(self.section, {})[name] = found

    @contextmanager
    def contenders(self, page: Page, names: Sequence[str], wire: Callable[[], Wire]) -> Iterator[dict[str, Contender]]:
        """The contenders that can run here, each with a wire of its own, seen to give the page back."""
        items = ours.stored(page)
        with ExitStack() as stack:
            found = {}
            for name in names:
                module, cls = CONTENDERS[name].split(":")
                try:
                    kind = getattr(import_module(f"benchmarks.dynamodb.{module}"), cls)
                except ModuleNotFoundError as error:
                    self.figures.missing[name] = f"{error.name} is not installed"
                    continue
                answered = wire()
                stack.callback(answered.close)
                found[name] = kind(page, answered, items)
                stack.callback(found[name].close)
                found[name].check()
            yield found

    def pages(self, of: Sequence[Page], names: Sequence[str]) -> None:
        """Decode pages, a race each."""
        for page in of:
            with self.contenders(page, names, Canned) as found:
                self.race(page.name, _racers(found, "query"))

    def calls(self, wire: Callable[[], Wire], names: Sequence[str]) -> None:
        """Single calls on a page of few orders."""
        with self.contenders(pages.orders(FEW), names, wire) as found:
            for name in CALLS:
                self.race(f"query of {FEW}, an item" if name == "query" else name, _racers(found, name))


def _racers(found: Mapping[str, Contender], name: Call) -> dict[str, Racer]:
    racers = {who: contender.racer(name) for who, contender in found.items()}
    return {who: racer for who, racer in racers.items() if racer is not None}


def _decode(run: _Run) -> None:
    run.pages([pages.orders(run.settings.size)], (*SYNC, "by hand"))
    run.pages([pages.three_classes(run.settings.size)], SYNC)


def _validators(run: _Run) -> None:
    run.pages(pages.validating(run.settings.size), ("odm", "boto3 client + Pydantic", "PynamoDB"))


def _shapes(run: _Run) -> None:
    run.pages(pages.shapes(run.settings.size), UNLIKE_ORDERS)


def _encode(run: _Run) -> None:
    page = pages.orders(FEW)
    with run.contenders(page, ("odm", "boto3 resource + Pydantic", "PynamoDB"), Canned) as found:
        racers = {}
        for who, (encode, of) in encoding.ENCODERS.items():
            if of in found:
                racers[who] = _encoder(encode(page), found[of].models, page)
        run.race("PutItem", racers)


def _encoder(encode: encoding.Encode, models: Sequence[Any], page: Page) -> Racer:
    encoding.check(page, encode, models[0])
    return Racer(lambda number: encode(models[number % len(models)]))


def _canned(run: _Run) -> None:
    run.calls(Canned, SYNC)


def _http(run: _Run) -> None:
    run.calls(Loopback.start, [name for name in CONTENDERS if name != "by hand"])


SECTIONS: Final[Mapping[str, Callable[[_Run], None]]] = {
    "decode": _decode,
    "validators": _validators,
    "shapes": _shapes,
    "encode": _encode,
    "calls": _canned,
    "http": _http,
}


def measure(settings: Settings) -> Figures:
    """Measure all that is asked for."""
    figures = Figures()
    for section, part in SECTIONS.items():
        if section in settings.sections:
            part(_Run(settings, figures, section))
    return figures
