"""The source of generated models → their table, without running it: the classes are built from what the source says."""

import ast
from datetime import date, datetime
from decimal import Decimal
from types import new_class
from typing import Annotated, Any, Final

from odm import TTL, AccessPattern, BadValue, Cell, Columns, Entity, PrimaryKey, Stored, Table, exists, field
from odm.cli.inspect.grammar import matched_field, parse

_TYPES: Final[dict[str, Any]] = {
    **{type_.__name__: type_ for type_ in (str, int, float, bool, bytes, list, dict, set, Decimal, date, datetime)},
    "Any": Any,
}
_MARKS: Final[dict[str, Any]] = {"TTL": TTL, "Columns": Columns}
_CALLS: Final[dict[str, Any]] = {
    "Table": Table,
    "PrimaryKey": PrimaryKey,
    "AccessPattern": AccessPattern,
    "Stored": Stored,
    "Cell": Cell,
    "set": set,
}


def declared(source: str, module: str) -> Table:
    """The table that a source declares, with its entities.

    Args:
        source: the text of generated models; see `odm.cli.inspect.grammar`.
        module: the name of the module of the classes.

    Raises:
        BadValue: the source has something else in it, or no table.
        SchemaError: the declarations are not valid.
    """
    table: Table | None = None
    for node in parse(source).body:
        match node:
            case ast.Assign(value=ast.Call() as call):
                table = _called(call)
            case ast.ClassDef() if table is not None:
                _entity(node, table, module)
    if table is None:
        raise BadValue("the models that were generated declare no table")
    return table


def _entity(node: ast.ClassDef, table: Table, module: str) -> None:
    body: dict[str, Any] = {"__module__": module, "__qualname__": node.name}
    annotations: dict[str, Any] = {}
    for member in node.body:
        match member:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                annotations[name] = _annotation(annotation)
                if value is not None:
                    body[name] = _called(value) if isinstance(value, ast.Call) else _value(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                body[name] = _called(call)
    body["__annotations__"] = annotations
    options = {str(keyword.arg): _option(keyword.value) for keyword in node.keywords if keyword.arg != "table"}
    new_class(node.name, (Entity,), {"table": table, **options}, lambda namespace: namespace.update(body))


def _option(node: ast.expr) -> Any:
    name = matched_field(node)
    return _value(node) if name is None else exists(field(name))


def _annotation(node: ast.expr) -> Any:
    match node:
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[type_, *marks])):
            return Annotated[(_type(type_), *map(_mark, marks))]
    return _type(node)


def _type(node: ast.expr) -> Any:
    match node:
        case ast.Name(id=name):
            return _TYPES[name]
        case ast.BinOp(left=inner):
            return _type(inner) | None
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=parts)):
            return _TYPES[name][tuple(map(_type, parts))]
        case ast.Subscript(value=ast.Name(id=name), slice=part):
            return _TYPES[name][_type(part)]
    raise AssertionError(ast.dump(node))  # the grammar has no other


def _mark(node: ast.expr) -> Any:
    return _called(node) if isinstance(node, ast.Call) else _MARKS[node.id if isinstance(node, ast.Name) else ""]


def _called(node: ast.Call) -> Any:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    return _CALLS[name](
        *map(_value, node.args), **{str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
    )


def _value(node: ast.expr) -> Any:
    """A constant, or a tuple or dict of constants."""
    return ast.literal_eval(node)
