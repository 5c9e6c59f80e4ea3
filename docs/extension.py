"""What the site adds to Sphinx: Python files as pages, tables in docstrings, and names as users import them."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pydoc import ErrorDuringImport, locate
from textwrap import indent
from typing import Any, Generic, TypeVar

import attrs
from docutils import nodes
from pydantic import BaseModel
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.parsers import RSTParser
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.logging import getLogger
from typing_extensions import is_protocol

R = TypeVar("R")

PUBLISHED = "odm._published"
"""What loads the names of a module, which has none of them."""

TYPED = re.compile(
    r"^(\.\. attribute::[^\n]*\n)((?:(?!\.\. attribute::).)*?)^   :type: ([^\n]*)$", re.MULTILINE | re.DOTALL
)
"""An attribute as napoleon writes it: its line, its text, and its type."""

DEFAULT = re.compile(r"attr_dict\['(\w+)'\]\.default")
"""A default in the signature of a class of attrs."""

DESCRIBED = re.compile(r"[~\w.]*Annotated\[([^,]*), FieldInfo\(.*?\)\]")
"""A type with a description for pydantic."""


def name_types() -> None:
    """Give two type aliases a name, so that signatures show it and not the dozens of classes that it stands for."""
    from odm.expressions import nodes as expressions
    from odm.protocol import connection

    class Gen(Generic[R]):
        pass

    class Action:
        pass

    Gen.__module__, Gen.__qualname__ = "odm.extend", "Gen"
    Action.__module__, Action.__qualname__ = expressions.__name__, "Action"
    vars(connection)["CoreGen"] = Gen
    vars(expressions)["Action"] = Action


def read_public_modules() -> None:
    """Let autodoc find the texts of attributes and the order of members of the public classes.

    They say that they are of the module that users import, so their modules are read as if they were that one.
    """
    from odm import _public, changes, extend, results

    for home, listing in {"odm": _public, **{module.__name__: module for module in (changes, extend, results)}}.items():
        whole = ModuleAnalyzer.for_string("", home)
        whole.analyze()
        for node in ast.walk(ast.parse(Path(str(listing.__file__)).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("odm.") and node.module != PUBLISHED:
                part = ModuleAnalyzer.for_module(str(node.module))
                part.analyze()
                for name in ("annotations", "attr_docs", "overloads", "tagorder", "tags"):
                    getattr(whole, name).update(getattr(part, name))
                whole.finals += part.finals
        ModuleAnalyzer.cache["module", home] = whole


def public_names() -> Iterator[tuple[str, object]]:
    """The path of each name that users import, and what it is."""
    import odm
    from odm.backends import bigtable

    for module in (odm, odm.changes, odm.extend, odm.results, bigtable):
        yield from ((f"{module.__name__}.{name}", getattr(module, name)) for name in module.__all__)


class PythonPage(RSTParser):
    """A Python file as a page: what its docstring says, and its source."""

    supported = ("python",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        path, tree = Path(document["source"]), ast.parse(inputstring)
        source = inputstring.splitlines()[tree.body[0].end_lineno :]
        if path.parent.name == "patterns":
            title = f"odm.patterns.{path.stem}"
            text = f".. automodule:: {title}\n   :members:\n   :exclude-members: model_config\n\nSource\n------"
        else:
            title, text = path.name, f".. default-role:: code\n\n{ast.get_docstring(tree)}"
        code = ".. code-block:: python\n\n" + indent("\n".join(source).strip("\n"), "   ")
        super().parse(f"{title}\n{'=' * len(title)}\n\n{text}\n\n{code}\n", document)


def read_docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Write a docstring as reStructuredText where napoleon would take text before a colon for a type."""
    lines[:] = [":returns:" if line == "Returns:" else line for line in _with_tables(lines)]
    if what in {"attribute", "data", "property"}:
        lines.insert(0, "\\")  # joins the next line


def split_attributes(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Show types next to the names of attributes, and make two entries of ``old, new: the item before and after``."""
    text = TYPED.sub(r"\1   :type: \3\n\2", "\n".join(lines))
    text = re.sub(r"(?m)^\.\. attribute::.*", lambda found: found[0].replace(", ", f"\n{' ' * 15}"), text)
    lines[:] = text.split("\n")


def _with_tables(lines: list[str]) -> Iterator[str]:
    inside = False
    for line in lines:
        if not line.startswith("|"):
            if inside and line:
                yield ""
            inside = False
            yield line
            continue
        if not inside:
            yield from ("", ".. list-table::", "   :header-rows: 1", "")
        inside = True
        cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
        if not set(line) <= set("|-: "):
            yield from (f"   {'* -' if at == 0 else '  -'} {cell}" for at, cell in enumerate(cells))


def shorten_signature(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returned: str | None
) -> tuple[str, str | None] | None:
    """Leave out descriptions, and the arguments of an entity, which are the listed fields, and of a protocol."""
    if what != "class" or not isinstance(obj, type) or signature is None:
        return None
    if issubclass(obj, BaseModel) or is_protocol(obj):
        return ("", None)
    if attrs.has(obj):
        signature = DEFAULT.sub(lambda found: _shown(attrs.fields_dict(obj)[found[1]].default), signature)
    signature = signature.replace("<factory>", "...")
    return (DESCRIBED.sub(r"\1", signature), returned)


def _shown(default: object) -> str:
    return repr(default) if default is None or isinstance(default, bool | int | float | str) else "..."


def find_name(app: Sphinx, env: BuildEnvironment, node: nodes.Element, shown: nodes.Element) -> nodes.Node | None:
    """A name that has no entry under this path: the public object's entry, or plain text for what exists elsewhere.

    Sphinx reports a name that does not exist.
    """
    if node.get("refdomain") != "py":
        return None
    module, name = node.get("py:module"), node["reftarget"]
    homes = ("odm", "odm.results", "odm.changes", "odm.extend")
    paths = [name, f"{module}.{name}", f"{module}.{node.get('py:class')}.{name}", *(f"{home}.{name}" for home in homes)]
    path, found = next(((path, value) for path in paths if (value := _located(path)) is not None), ("", None))
    if found is None:
        return None
    path = next((public for public, value in public_names() if value is found), path)
    domain = env.domains.python_domain
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", path, node, shown) or shown


def _located(path: str) -> object:
    try:
        return locate(path)
    except ErrorDuringImport:  # a package that is not installed
        return None


def complete_page(app: Sphinx, docname: str, content: list[str]) -> None:
    """Add what only the site can show: the pages below a page, and the reference of the command line by typer."""
    if below := {"examples/README": "*", "CONTRIBUTING": "tests/*"}.get(docname):
        content[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{below}\n```\n"
    if docname == "docs/reference/cli":
        command = [sys.executable, "-m", "typer", "odm.cli.commands", "utils", "docs", "--name", "odm"]
        written = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
        content[0] += written[written.index("\n## ") :]


def check_complete(app: Sphinx, env: BuildEnvironment) -> None:
    """Report the public names that the reference does not have."""
    for path, _ in public_names():
        if path not in env.domains.python_domain.objects:
            getLogger(__name__).warning("%s is public, and is not in docs/reference", path)


def setup(app: Sphinx) -> dict[str, Any]:
    """Add all of it to Sphinx."""
    name_types()
    read_public_modules()
    app.add_source_parser(PythonPage)
    app.connect("autodoc-process-docstring", read_docstring, priority=400)  # napoleon has 500
    app.connect("autodoc-process-docstring", split_attributes, priority=600)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("missing-reference", find_name)
    app.connect("source-read", complete_page)
    app.connect("env-check-consistency", check_complete)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
