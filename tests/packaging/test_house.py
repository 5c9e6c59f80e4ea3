"""The limits of files and functions of the library, and no `getattr` for what a connection can do."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_LINES, MOST_LINES_OF_CODE = 450, 40
"""Of a file, and of a function without its docstring."""

ASKED = ("connection", "backend", "inner")
"""What a wrapper or a store has: asked by its methods and never by `getattr`."""


def sources() -> Iterator[tuple[str, str]]:
    """The files of the library, by their paths."""
    for folder in ("odm", "backends", "patterns"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text()


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function, signature included and docstring not."""
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    lines = (function.end_lineno or 0) - function.lineno + 1
    return lines - ((first.end_lineno or 0) - first.lineno + 1 if documented else 0)


def test_no_file_is_too_long() -> None:
    found = dict(sources())
    assert "odm/stores/sync.py" in found
    assert "backends/dynamodb/driver.py" in found
    assert {path: n for path, text in found.items() if (n := len(text.splitlines())) > MOST_LINES} == {}


def test_no_function_is_too_long() -> None:
    functions = [
        (f"{path}:{node.name}", code_lines(node))
        for path, text in sources()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(functions) > 1000
    assert [(name, lines) for name, lines in functions if lines > MOST_LINES_OF_CODE] == []


def asked(text: str) -> list[str]:
    """What ``getattr`` and ``hasattr`` are called on in a file, where that is a connection or a backend."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    on = [ast.unparse(call.args[0]) for call in calls if ast.unparse(call.func) in ("getattr", "hasattr") and call.args]
    return [name for name in on if name.rpartition(".")[2].lstrip("_") in ASKED]


def test_no_power_of_a_connection_is_asked_for_by_name() -> None:
    assert asked("getattr(self.inner, 'units', None); hasattr(backend, 'clock'); getattr(item, 'load')") == [
        "self.inner",
        "backend",
    ]
    allowed = {"odm/testing/bridge.py"}  # its inner object is a store
    assert {path: found for path, text in sources() if path not in allowed and (found := asked(text))} == {}
