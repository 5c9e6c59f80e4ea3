"""No `getattr` for what a connection can do."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ASKED = ("connection", "backend", "inner")
"""What a wrapper or a store has: asked by its methods and never by `getattr`."""


def sources() -> Iterator[tuple[str, str]]:
    """The files of the library, by their paths."""
    for folder in ("odm", "backends", "patterns"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text()


def asked(text: str) -> list[str]:
    """What ``getattr`` and ``hasattr`` are called on in a file, where that is a connection or a backend."""
    if "getattr" not in text and "hasattr" not in text:
        return []
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and node.args]
    named = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("getattr", "hasattr")]
    on = [ast.unparse(call.args[0]) for call in named]
    return [name for name in on if name.rpartition(".")[2].lstrip("_") in ASKED]


def test_no_power_of_a_connection_is_asked_for_by_name() -> None:
    assert asked("getattr(self.inner, 'units', None); hasattr(backend, 'clock'); getattr(item, 'load')") == [
        "self.inner",
        "backend",
    ]
    allowed = {"odm/testing/bridge.py"}  # its inner object is a store
    assert {path: found for path, text in sources() if path not in allowed and (found := asked(text))} == {}
