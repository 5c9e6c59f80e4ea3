"""Declarations in class bodies: their reading from the AST, and what is known of them and of fields later.

What is read is stored in ``TypeInfo.metadata["odm"]``, as JSON that mypy keeps in its cache.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from mypy.errorcodes import ErrorCode
from mypy.nodes import (
    ARG_STAR,
    ARG_STAR2,
    AssignmentStmt,
    Block,
    CallExpr,
    ComparisonExpr,
    Decorator,
    Expression,
    FuncDef,
    IfStmt,
    IndexExpr,
    ListExpr,
    MemberExpr,
    NameExpr,
    OpExpr,
    Statement,
    StrExpr,
    SymbolNode,
    TupleExpr,
    TypeAlias,
    TypeInfo,
    UnaryExpr,
    Var,
)
from mypy.plugin import (
    SemanticAnalyzerPluginInterface,
)
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    NoneType,
    ProperType,
    Type,
    UnboundType,
    UnionType,
    get_proper_type,
    has_type_vars,
)

from odm import AccessPattern
from odm.keys.grammar import unpaired

PATTERN: Final = "odm.entities.patterns.Pattern"
PRIMARY: Final = "odm.entities.patterns.PrimaryKey"
ACCESS: Final = "odm.entities.patterns.AccessPattern"
UNIQUE: Final = "odm.patterns.unique.Unique"
POINTER: Final = "odm.patterns.pointer.Pointer"
VERSIONED: Final = "odm.patterns.versioned.Versioned"
DECLARED: Final = {PRIMARY, ACCESS, UNIQUE, POINTER, VERSIONED}
"""The classes whose declarations are read; those of other patterns and companions are not known."""

COMPANION: Final = "odm.entities.companions.BaseCompanion"
ENTITY: Final = "odm.entities.entity.Entity"
MARKERS: Final = "odm.entities.markers."
FIELD: Final = "odm.expressions.build.field"

MARKED: Final = {
    **dict.fromkeys(("TTL", "CreatedAt", "UpdatedAt"), "datetime.datetime"),
    **dict.fromkeys(("Revision", "Counter", "Sum", "Min", "Max"), "builtins.int"),
}
"""The type of a field with a marker."""

PLAIN: Final = {"bool", "bytes", "date", "datetime", "Decimal", "float", "int", "str", "UUID"}
"""The names of types that keys can have."""

ODM: Final = ErrorCode("odm", "Keys and patterns of odm that cannot work", "odm")


class Declared(NamedTuple):
    """A pattern as declared: its class, the fields of its templates, and other fields that it names."""

    kind: str
    partition: Sequence[str]
    sort: Sequence[str]
    others: Sequence[str] = ()

    @property
    def fields(self) -> list[str]:
        """The fields of both templates, each once, in order."""
        return [*dict.fromkeys((*self.partition, *self.sort))]


def data_of(info: TypeInfo) -> dict[str, Any]:
    """What was read of a class: whether it has a table, its patterns, the markers of fields, and the optional ones."""
    return info.metadata.get("odm", {"table": False, "patterns": {}, "marked": {}, "optional": []})


def statements_of(body: Block, wrapped: bool = False) -> Iterator[tuple[Block | None, int, Statement]]:
    """The statements of a class body, with the block that holds them; None: `OdmPlugin.read` made the block."""
    for at, statement in enumerate(body.body):
        if isinstance(statement, Block):
            yield from statements_of(statement, wrapped=True)
        elif isinstance(statement, IfStmt):
            for block in (*statement.body, *filter(None, [statement.else_body])):
                yield from () if block.is_unreachable else statements_of(block)
        else:
            yield None if wrapped else body, at, statement


def declarations_in(statement: Statement) -> Iterator[tuple[str, CallExpr, FuncDef | None]]:
    """What may be a declaration in a class body: ``name = call(...)``, or a function with decorators."""
    if isinstance(statement, AssignmentStmt):
        name, call = statement.lvalues[0], statement.rvalue
        if len(statement.lvalues) == 1 and isinstance(name, NameExpr) and isinstance(call, CallExpr):
            yield name.name, call, None
    elif isinstance(statement, Decorator):
        for call in statement.original_decorators:
            if isinstance(call, CallExpr):
                yield statement.name, call, statement.func


def kind_of(callee: Expression, api: SemanticAnalyzerPluginInterface) -> tuple[TypeInfo | None, bool]:
    """The class of what a call makes, if it is a pattern or a companion, and whether a function makes it."""
    name = _dotted(callee)
    symbol = api.lookup_qualified(name, callee, suppress_errors=True) if name else None
    node: SymbolNode | None = symbol.node if symbol else None
    resolved: Type | None = None
    by_function = isinstance(node, FuncDef)
    if isinstance(node, TypeAlias):
        resolved = node.target
    elif isinstance(node, FuncDef) and isinstance(node.type, CallableType):
        resolved = node.type.ret_type
    if isinstance(resolved, UnboundType):  # mypy has not read the signature yet
        symbol = api.lookup_qualified(resolved.name, callee, suppress_errors=True)
        node = symbol.node if symbol else None
    elif resolved is not None:
        resolved = get_proper_type(resolved)
        node = resolved.type if isinstance(resolved, Instance) else None
    if isinstance(node, TypeInfo) and node.mro and (node.has_base(PATTERN) or node.has_base(COMPANION)):
        return node, by_function
    return None, by_function


def _dotted(expression: Expression) -> str | None:
    if isinstance(expression, NameExpr):
        return expression.name
    if isinstance(expression, IndexExpr):
        return _dotted(expression.base)
    if isinstance(expression, MemberExpr) and (before := _dotted(expression.expr)):
        return f"{before}.{expression.name}"
    return None


def as_declared(kind: str, call: CallExpr, api: SemanticAnalyzerPluginInterface) -> Declared | None:
    """A declaration, if its class is one of `DECLARED` and its templates are literals, or constants of them."""
    if kind not in DECLARED or {ARG_STAR, ARG_STAR2} & {*call.arg_kinds}:
        return None
    if kind == UNIQUE:
        names = [arg.value for arg in call.args if isinstance(arg, StrExpr)]
        return Declared(kind, names, []) if len(names) == len(call.args) else None
    arguments = _arguments(call)
    partition, sort = templates_of(call)
    first = _fields(partition, api)
    second = [] if sort is None or _is_none(sort) else _fields(sort, api)
    if first is None or second is None:
        return None
    if kind == POINTER:  # a call gives all fields
        return Declared(kind, [*first, *second], [], [*_others(arguments, api)])
    return Declared(kind, first, second, [*_others(arguments, api)])


def templates_of(call: CallExpr) -> tuple[Expression | None, Expression | None]:
    """The partition and the sort template of a declaration."""
    arguments = _arguments(call)
    return arguments.get("partition", arguments.get("0")), arguments.get("sort", arguments.get("1"))


def _arguments(call: CallExpr) -> dict[str, Expression]:
    """The arguments of a call, by name or position."""
    return dict(zip((name or str(at) for at, name in enumerate(call.arg_names)), call.args, strict=True))


def _fields(template: Expression | None, api: SemanticAnalyzerPluginInterface) -> list[str] | None:
    """The fields of a template; None if its text is not known, or is not one."""
    text = None if template is None else _text(template, api)
    return None if text is None or unpaired(text) else [*AccessPattern(text).fields]


def _text(expression: Expression, api: SemanticAnalyzerPluginInterface) -> str | None:
    """The text of a literal, of a constant (``Final``), or of their sum; None if it is not known."""
    if isinstance(expression, StrExpr):
        return expression.value
    if isinstance(expression, OpExpr) and expression.op == "+":
        start, end = (_text(side, api) for side in (expression.left, expression.right))
        return None if start is None or end is None else start + end
    name = _dotted(expression)
    symbol = api.lookup_qualified(name, expression, suppress_errors=True) if name else None
    node = symbol.node if symbol else None
    value = node.final_value if isinstance(node, Var) and node.is_final else None
    return value if isinstance(value, str) else None


def is_known(record: Any) -> bool:
    """Whether what is stored of a pattern is its declaration; otherwise it is text, and PRIMARY for a primary key."""
    return not isinstance(record, str)


def _is_none(expression: Expression) -> bool:
    return isinstance(expression, NameExpr) and expression.name == "None"


def _others(arguments: dict[str, Expression], api: SemanticAnalyzerPluginInterface) -> Iterator[str]:
    """The fields that the shards, the projection or the condition of a declaration name, and that a pointer tracks."""
    shards, projection, tracks = (arguments.get(name) for name in ("shards", "projection", "tracks"))
    yield from _named(arguments.get("when"), api)
    if isinstance(tracks, StrExpr):
        yield tracks.value
    if isinstance(shards, CallExpr):
        names = zip(shards.arg_names, shards.args, strict=True)
        yield from (
            arg.value
            for at, (name, arg) in enumerate(names)
            if isinstance(arg, StrExpr) and (name == "by" or (at == 1 and name is None))
        )
    if isinstance(projection, ListExpr | TupleExpr):
        yield from (item.value for item in projection.items if isinstance(item, StrExpr))


def _named(condition: Expression | None, api: SemanticAnalyzerPluginInterface) -> Iterator[str]:
    """The fields that a condition of a declaration names: ``field("status") == "open"``."""
    if isinstance(condition, ComparisonExpr):
        parts = condition.operands
    elif isinstance(condition, OpExpr):
        parts = [condition.left, condition.right]
    elif isinstance(condition, UnaryExpr | MemberExpr):
        parts = [condition.expr]
    elif isinstance(condition, CallExpr):
        parts = condition.args
        name = _dotted(condition.callee)
        symbol = api.lookup_qualified(name, condition, suppress_errors=True) if name else None
        if symbol and symbol.fullname == FIELD:
            yield from (text.value for text in parts if isinstance(text, StrExpr))
    else:
        return
    for part in parts:
        yield from _named(part, api)


def marked_in(statement: AssignmentStmt, api: SemanticAnalyzerPluginInterface) -> dict[str, str]:
    """The marker of a field, by its name; "" if it has none."""
    field, annotation = statement.lvalues[0], statement.unanalyzed_type
    if not isinstance(field, NameExpr):
        return {}
    if not isinstance(annotation, UnboundType) or annotation.name.rpartition(".")[2] != "Annotated":
        return {field.name: ""}
    for mark in annotation.args[1:]:
        symbol = api.lookup_qualified(mark.name, mark, suppress_errors=True) if isinstance(mark, UnboundType) else None
        fullname = (symbol.fullname or "") if symbol else ""
        if fullname.startswith(MARKERS) and fullname.removeprefix(MARKERS) in MARKED:
            return {field.name: fullname.removeprefix(MARKERS)}
    return {field.name: ""}


def optional_in(statement: AssignmentStmt) -> Iterator[str]:
    """The name of a field that is written as ``str | None``; an alias may have a marker by which it gets a value."""
    field, annotation = statement.lvalues[0], statement.unanalyzed_type
    if not isinstance(field, NameExpr) or not isinstance(annotation, UnionType):
        return
    names = {item.name.rpartition(".")[2] for item in annotation.items if isinstance(item, UnboundType)}
    if len(names) == len(annotation.items) == 2 and "None" in names and names & PLAIN:
        yield field.name


def pattern_of(info: TypeInfo, name: str) -> Declared | None:
    """The pattern of an entity under an attribute name; None if it is not known."""
    for base in info.mro:
        if name in base.names:
            record = data_of(base)["patterns"].get(name, "")
            return Declared(*record) if is_known(record) else None
    return None


def primary_of(info: TypeInfo) -> tuple[str, Declared] | None:
    """The name and the declaration of an entity's primary key; None if it is not known."""
    for base in info.mro:
        patterns = data_of(base)["patterns"]
        names = [name for name, record in patterns.items() if PRIMARY in record]
        names += [name for name in base.names if name not in patterns and _is_primary(base, name)]
        if names:
            pattern = pattern_of(info, names[0])
            return (names[0], pattern) if pattern and len(names) == 1 else None
    return None


def _is_primary(info: TypeInfo, name: str) -> bool:
    node = info.names[name].node
    type_ = get_proper_type(node.type) if isinstance(node, Var) else None
    return isinstance(type_, Instance) and type_.type.has_base(PRIMARY)


def marker_of(info: TypeInfo, name: str) -> str:
    """The marker of a field; "" if it has none."""
    # pydantic's plugin copies the names of inherited fields, so base.names does not say where a field was declared.
    marked = (data_of(base)["marked"] for base in info.mro)
    return next((str(fields[name]) for fields in marked if name in fields), "")


def field_type(info: TypeInfo, name: str) -> ProperType | None:
    """The type of a field, also of a computed one; None if it is not known."""
    symbol = info.get(name)
    node = symbol.node if symbol else None
    of: Type | None = node.type if isinstance(node, Var) else None
    if isinstance(node, Decorator) and node.var.is_property and isinstance(node.func.type, CallableType):
        of = node.func.type.ret_type
    proper_type = get_proper_type(of)
    return (
        None if proper_type is None or isinstance(proper_type, AnyType) or has_type_vars(proper_type) else proper_type
    )


def without_none(type_: ProperType) -> ProperType:
    """The type without None, which a key cannot have."""
    if not isinstance(type_, UnionType):
        return type_
    items = [item for item in type_.items if not isinstance(get_proper_type(item), NoneType)]
    return get_proper_type(UnionType.make_union(items))


def field_names(info: TypeInfo) -> list[str]:
    """The fields of an entity, inherited ones first."""
    bases = [base for base in reversed(info.mro) if base.has_base(ENTITY) and base.fullname != ENTITY]
    nodes = {name: symbol.node for base in bases for name, symbol in base.names.items()}
    return [
        name
        for name, node in nodes.items()
        if isinstance(node, Var) and not node.is_classvar and not node.is_inferred and not name.startswith("_")
    ]
