"""Helpers for the tests of the bundled engine."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, cast

from odm.backends.local import LocalFile
from odm.backends.local.driver import LocalConnection
from odm.backends.local.storage import Change, Record, Storage, View
from odm.protocol.connection import perform
from odm.protocol.requests import CreateTables, Key, Request
from odm.schema.model import IndexSchema, Schema

ROOT = Path(__file__).parents[3]

HANGS = 120.0
"""The timeout for a process, in seconds."""

Send: TypeAlias = Callable[[Request], Any]
"""Performs one request and returns its response."""


def schema_of(name: str = "shop", indexes: tuple[str, ...] = ("by_x", "by_y")) -> Schema:
    return Schema(name, {}, {index: IndexSchema(index, ()) for index in indexes})


def opened(path: Path, *, create: bool = True, timeout: float = 60.0) -> LocalConnection:
    """A connection to the table ``shop`` with the indexes ``by_x`` and ``by_y``."""
    connection = cast(LocalConnection, LocalFile(path, timeout=timeout).connect(schema_of()))
    if create:
        perform(connection, CreateTables())
    return connection


@contextmanager
def reading(storage: Storage) -> Iterator[View]:
    """A block that reads."""
    view = storage.reading()
    with view.block:
        yield view


@contextmanager
def writing(storage: Storage) -> Iterator[View]:
    """A block that writes."""
    view = storage.writing()
    with view.block:
        yield view


def set_record(view: View, key: Key, record: Record | None) -> None:
    """Put a record, or delete it."""
    view.apply((Change(key, view.record(key), record),))


def started(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a Python process that runs the code."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a process prints; fails if the process has ended instead."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return line


def output_of(code: str, *arguments: object) -> str:
    """The output of a Python process that runs the code; fails if the process does."""
    with started(code, *arguments) as process:
        try:
            out, err = process.communicate(timeout=HANGS)
        finally:
            process.kill()
    assert (process.returncode, err) == (0, ""), err
    return out
