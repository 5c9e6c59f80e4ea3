"""The contenders of the bundled engine, by name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.contender import Contender, Entry
from benchmarks.pages import Page, many_customers
from benchmarks.services import Dynalite, InFile, InMemory, Moto, Service


def _memory(_: Path) -> Service:
    return InMemory()


def _moto(_: Path) -> Service:
    return Moto()


def _dynalite(_: Path) -> Service:
    return Dynalite()


ODM: Final = "libraries.ours:Odm"

ENTRIES: Final = (
    Entry("Memory", ODM, _memory),
    Entry("Memory + index", ODM, _memory, indexed=True),
    Entry("LocalFile", ODM, InFile),
    Entry("LocalFile + index", ODM, InFile, indexed=True),
    Entry("dict + SortedDict", "engine.floors:Sorted", _memory),
    Entry("pydantic alone", "engine.floors:Validation", _memory),
    Entry("sqlite3", "engine.floors:Sqlite", InFile),
    Entry("append + fdatasync", "engine.floors:Append", InFile),
    # moto copies all tables before each transaction
    Entry("moto + boto3", "libraries.boto:Client", _moto, largest=10_000, limits={"transact": 1000}),
    Entry("PynamoDB + moto", "libraries.pynamo:Pynamo", _moto, largest=10_000, limits={"transact": 1000}),
    # dynalite has no transactions
    Entry("dynalite + boto3", "libraries.boto:Client", _dynalite, largest=10_000, limits={"transact": 0}),
    Entry("dynamoxy", "libraries.dynamoxy_models:InMemory", _memory),
)


def page_of(entry: Entry, size: int) -> Page:
    """What it is loaded with."""
    return many_customers(size, indexed=entry.indexed)


def service_of(entry: Entry, size: int, folder: Path) -> Service:
    """What it runs on; its file, if it has one, is in a folder, which is made."""
    folder.mkdir(exist_ok=True)
    assert entry.service is not None
    return entry.service(folder / f"{entry.name}-{size}")


@contextmanager
def started(name: str, size: int, folder: Path) -> Iterator[Contender]:
    """A contender by its name, empty."""
    [entry] = [entry for entry in ENTRIES if entry.name == name]
    with entry.on(page_of(entry, size), lambda: service_of(entry, size, folder)) as contender:
        yield contender
