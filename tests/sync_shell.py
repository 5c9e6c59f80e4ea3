"""Generates `odm/stores/sync.py` from `odm/stores/asynchronous.py`: ``python -m tests.sync_shell`` writes it.

The two differ by ``async`` and ``await``, by the names of `NAMES`, by the texts of `TEXTS`, and by what is marked
``# async only``. A test compares the file with what this module makes.

The library unasync replaces words only. The docstrings of the two shells differ by more, and so do their last lines, so
it would need most of this module around it.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

STORES: Final = Path(__file__).parent.parent / "odm" / "stores"
SOURCE: Final = STORES / "asynchronous.py"
GENERATED: Final = STORES / "sync.py"

NAMES: Final = {
    "AsyncBatch": "Batch",
    "AsyncGenerator": "Generator",
    "AsyncIterator": "Iterator",
    "AsyncResults": "Results",
    "AsyncStore": "Store",
    "AsyncTransaction": "Transaction",
    "Async": "Sync",
    "RESULTS_AWAITED": "SYNC_IN_ASYNC",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "aperform": "perform",
    "arun": "run",
}
"""Names of the async shell, and those of the sync one."""

TEXTS: Final = {
    '''"""`AsyncStore`: the interface of odm for asyncio. Each method runs one operation.

`odm.stores.sync` is generated from this file by ``python -m tests.sync_shell``, which drops the lines that end with
``# async only``, and what stands between ``# async only: begin`` and ``# async only: end``. Change this one.

The methods of a transaction collect operations without I/O, so they have no ``await``, in sync and async alike: an
operation whose ``await`` was forgotten would be missing from the transaction without an error.
"""
''': '''"""`Store`: the sync interface of odm. Each method runs one operation.

Generated from `odm.stores.asynchronous` by ``python -m tests.sync_shell``: change that file, and run this.
"""
''',
    "(Awaited, Hinted, Async)": "(Hinted, Async)",
    "    _sync = False\n": "    _sync = True\n",
    "AsyncGenerator[Any, None]": "AsyncGenerator[Any, None, None]",
    "            for item in items:\n                yield item\n": "            yield from items\n",
    "``async with": "``with",
    "batch: await batch.put(...)``": "batch: batch.put(...)``",
    "A table on a backend, for asyncio. As an async context manager it": (
        "A table on a backend. Thread-safe; as a context manager it"
    ),
    """after every native request; when requests are sent in
            parallel, while others are in progress. What it raises is logged and ignored. A cancelled request is not
            reported.
""": """after every native request; from several threads when
            requests are sent to a network in parallel. What it raises is logged and ignored.
""",
    "random: the source of random numbers; default": (
        "random: the source of random numbers, safe to use from several threads; default"
    ),
    "with options. They are read and written in threads.": "with options. Each table has a folder in it.",
    ", so its methods have no ``await``. An exception in it discards everything.": (
        ". An exception in the block discards everything."
    ),
}
"""Texts of the async shell, and those of the sync one. Each must occur."""


def sync_shell(source: str) -> str:
    """The sync shell of an async one.

    Raises:
        ValueError: a text of `TEXTS` does not occur.
    """
    for text, other in TEXTS.items():
        if text not in source:
            raise ValueError(f"{SOURCE.name} has no {text!r} any more: take it out of TEXTS")
        source = source.replace(text, other)
    source = re.sub(r"^# async only: begin\n.*?^# async only: end\n", "", source, flags=re.MULTILINE | re.DOTALL)
    source = re.sub(r"^.*# async only\n", "", source, flags=re.MULTILINE)
    source = re.sub(r"\b(async|await) ", "", source)
    source = re.sub(rf"\b({'|'.join(NAMES)})\b", lambda name: NAMES[name[1]], source)
    for command in (["check", "--quiet", "--fix", "--select", "F401,I"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(GENERATED), "-"]
        source = subprocess.run(ruff, input=source, capture_output=True, text=True, check=True).stdout
    return source


if __name__ == "__main__":
    GENERATED.write_text(sync_shell(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
