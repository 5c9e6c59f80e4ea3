"""The grammar of generated models: all Python that the source of models may consist of.

The source is made of texts that others wrote, and the program of the user imports what was printed. So the source is
parsed, and every node must be one of these. odm itself does not run it: `odm.cli.inspect.declare` builds the classes
from the parsed text, and they are tried on the sample.

* imports of the names in `IMPORTS`;
* one assignment of ``Table(...)``;
* classes with the base ``Entity`` and the keywords ``table`` and ``tag``, or ``match=exists(field("..."))``, whose
  bodies have annotated fields and assignments of ``PrimaryKey(...)`` and ``AccessPattern(...)``;
* texts that stand for themselves, which are docstrings.

An argument is a constant, or a tuple or dict of constants. An annotation has names of types, never text: Pydantic
evaluates text in an annotation. No name is assigned that the source uses for something else, so each call is a call of
odm's own. There are no attributes, operators but ``|``, f-strings, functions, decorators or statements besides these.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Final

from odm import BadValue

IMPORTS: Final[Mapping[str, frozenset[str]]] = {
    "datetime": frozenset({"date", "datetime"}),
    "decimal": frozenset({"Decimal"}),
    "typing": frozenset({"Annotated", "Any"}),
    "odm": frozenset(
        {"TTL", "AccessPattern", "Cell", "Columns", "Entity", "PrimaryKey", "Stored", "Table", "exists", "field"}
    ),
}

_PLAIN: Final = frozenset({"str", "int", "float", "bool", "bytes", "Decimal", "date", "datetime", "Any"})
_GENERIC: Final = frozenset({"list", "dict", "set"})

RESERVED: Final = frozenset({*_PLAIN, *_GENERIC, *(name for names in IMPORTS.values() for name in names)}) - {"date"}
"""The names that the source uses, which no table, class or field has. A field may be named date: nothing calls that."""

_VARIABLE: Final = re.compile(r"[a-z][a-z0-9_]*")
_CLASS: Final = re.compile(r"[A-Z][A-Za-z0-9]*")


def parse(source: str) -> ast.Module:
    """The tree of a source that consists of nothing else.

    Raises:
        BadValue: it has another node.
    """
    try:
        tree = ast.parse(source, "models.py")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadValue(f"the models that were generated are not Python: {type(error).__name__}: {error}") from error
    for node in tree.body:
        if not _is_statement(node):
            raise BadValue(f"line {node.lineno} of the models that were generated is not a declaration of odm")
    return tree


def _is_statement(node: ast.stmt) -> bool:
    match node:
        case ast.ImportFrom(module=str() as module, names=names, level=0):
            return all(alias.asname is None and alias.name in IMPORTS.get(module, ()) for alias in names)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
            return _is_variable(name) and _is_call(call, "Table")
        case ast.ClassDef(
            name=name, bases=[ast.Name(id="Entity")], keywords=[ast.keyword(arg="table", value=ast.Name()), *more]
        ):
            plain = not node.decorator_list and not getattr(node, "type_params", ())
            tagged = not more or (len(more) == 1 and _is_option(more[0]))
            named = _CLASS.fullmatch(name) is not None and name not in RESERVED
            return named and plain and tagged and all(map(_is_member, node.body))
    return _is_text(node)


def _is_option(option: ast.keyword) -> bool:
    """Whether this is what distinguishes the items of a class."""
    if option.arg == "match":
        return matched_field(option.value) is not None
    return option.arg == "tag" and _is_value(option.value)


def matched_field(node: ast.expr) -> str | None:
    """The name in ``exists(field("name"))``; None if it is another expression."""
    match node:
        case ast.Call(
            func=ast.Name(id="exists"),
            args=[ast.Call(func=ast.Name(id="field"), args=[ast.Constant(value=str() as name)], keywords=[])],
            keywords=[],
        ):
            return name
    return None


def _is_member(node: ast.stmt) -> bool:
    """Whether this is a statement of the body of an entity."""
    match node:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value, simple=1):
            return _is_variable(name) and _is_annotation(annotation) and (value is None or _is_default(value))
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
            return _is_variable(name) and _is_call(call, "PrimaryKey", "AccessPattern")
    return _is_text(node)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_variable(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None and name not in RESERVED


def _is_annotation(node: ast.expr) -> bool:
    match node:
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[type_, *marks])):
            return _is_type(type_) and all(map(_is_mark, marks))
    return _is_type(node)


def _is_type(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name):
            return name in _PLAIN
        case ast.BinOp(left=inner, op=ast.BitOr(), right=ast.Constant(value=None)):
            return _is_type(inner)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=parts)):
            return name in _GENERIC and all(map(_is_type, parts))
        case ast.Subscript(value=ast.Name(id=name), slice=part):
            return name in _GENERIC and _is_type(part)
    return False


def _is_mark(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return _is_call(node, "Stored", "Cell")
    return isinstance(node, ast.Name) and node.id in ("TTL", "Columns")


def _is_default(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=None) | ast.Dict(keys=[]):
            return True
        case ast.Call(func=ast.Name(id="set"), args=[], keywords=[]):
            return True
    return False


def _is_call(node: ast.Call, *names: str) -> bool:
    """Whether this is a call of one of these, with constants."""
    called = isinstance(node.func, ast.Name) and node.func.id in names
    named: Sequence[ast.keyword] = node.keywords
    return called and all(map(_is_value, node.args)) and all(word.arg and _is_value(word.value) for word in named)


def _is_value(node: ast.expr | None) -> bool:
    match node:
        case ast.Constant(value=None | bool() | str()):
            return True
        case ast.Tuple(elts=parts):
            return all(map(_is_value, parts))
        case ast.Dict(keys=keys, values=values):
            return all(map(_is_value, keys)) and all(map(_is_value, values))
    return False
