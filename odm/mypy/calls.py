"""Checks of calls: of patterns, of methods of stores that take a key, and of conditions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mypy.errorcodes import ARG_TYPE, CALL_ARG
from mypy.messages import format_type
from mypy.nodes import (
    ARG_NAMED,
    ARG_POS,
    ARG_STAR2,
    CallExpr,
    ComparisonExpr,
    Expression,
    IndexExpr,
    ListExpr,
    MemberExpr,
    OpExpr,
    RefExpr,
    TupleExpr,
    TypeInfo,
    UnaryExpr,
)
from mypy.plugin import (
    CheckerPluginInterface,
    MethodSigContext,
)
from mypy.subtypes import is_subtype
from mypy.types import FunctionLike, Instance, NoneType, Type, TypeType, get_proper_type

from odm.entities.signatures import wrong_names
from odm.mypy.declarations import (
    ENTITY,
    ODM,
    PRIMARY,
    field_names,
    field_type,
    marker_of,
    pattern_of,
    primary_of,
    without_none,
)

BOUND: Final = "odm.entities.patterns.BoundPattern"
SIGNED: Final = "odm.entities.patterns.SignedBoundPattern"
CALLABLE: Final = {
    BOUND,
    SIGNED,
    "odm.patterns.history.History",
    "odm.patterns.pointer.Pointed",
    "odm.patterns.unique.Holders",
}
"""What patterns and companions are on a class, whose calls take the fields of a declaration."""

QUERY: Final = "odm.entities.query.Query"
BUILD: Final = "odm.expressions.build."

ACTIONS: Final = {
    BUILD + name
    for name in (
        *("add_to", "add_value", "append", "discard_from", "increment", "prepend"),
        *("remove", "set_", "set_if_missing"),
    )
}
"""The functions that make the actions of an update."""

WORDS: Final = {
    "in": "is_in(field, choices)",
    "not in": "not_(is_in(field, choices))",
    "is": "field == value, or missing(field)",
    "is not": "field != value, or exists(field)",
}
"""What to write for the operators of Python that never make a condition."""

AUTOMATIC: Final = {
    "CreatedAt": "does not change",
    "Revision": "odm counts by itself",
    "UpdatedAt": "odm sets by itself",
}
"""The fields that no update changes, by their marker."""

OF_CLASS: Final = {"get", "one", "exists", "delete", "check"}
"""The methods that take a class with its key fields."""

OF_KEY: Final = {*OF_CLASS, "update", "merge", "cell_versions"}
"""The methods that take the key of one item."""

METHODS: Final = {*OF_KEY, "first", "get_many", "page", "put", "query", "scan"}
CALLED: Final = {
    "odm.procedures.batch.BatchSteps",
    "odm.procedures.calls.Calls",
    "odm.procedures.writing.transaction.Operations",
    "odm.stores.base.BaseStore",
    "odm.stores.asynchronous.AsyncBatch",
    "odm.stores.sync.Batch",
}
"""The classes, or a base of them, whose methods are checked."""


def pattern_called(ctx: MethodSigContext) -> FunctionLike:
    """Check the values of ``Order.by_date(...)``."""
    call, bound = ctx.context, ctx.type
    if not isinstance(call, CallExpr) or not isinstance(call.callee, MemberExpr) or not isinstance(bound, Instance):
        return ctx.default_signature
    info, name = _entity(bound.args[0]) if bound.args else None, call.callee.name
    pattern = pattern_of(info, name) if info else None
    if info is None or pattern is None or _entity(ctx.api.get_expression_type(call.callee.expr)) is not info:
        return ctx.default_signature
    arguments = _arguments(call)
    if bound.type.fullname == SIGNED:  # mypy checks names and types
        arguments = {field: value for field, value in arguments.items() if field in pattern.fields}
        if not {*pattern.partition} <= {*arguments}:
            return ctx.default_signature
    _check_names(ctx.api, call, f"{info.name}.{name}()", pattern.fields, pattern.partition, arguments)
    if bound.type.fullname != SIGNED:
        _check_types(ctx.api, f"{info.name}.{name}()", info, arguments)
    return ctx.default_signature


def method_called(ctx: MethodSigContext) -> FunctionLike:
    """Check the key of ``db.get(Order, ...)`` or ``db.get(Order.primary(...))``, and the fields of other arguments."""
    call = ctx.context
    if not isinstance(call, CallExpr) or not call.args or call.arg_kinds[0] != ARG_POS:
        return ctx.default_signature
    method = call.callee.name if isinstance(call.callee, MemberExpr) else ""
    if method == "get_many" and isinstance(call.args[0], ListExpr | TupleExpr):
        for key in call.args[0].items:
            _check_key(ctx.api, key, method)
    which = get_proper_type(ctx.api.get_expression_type(call.args[0]))
    info = _entity(which)
    if info is None:
        return ctx.default_signature
    is_class = not isinstance(which, Instance)
    if is_class and ARG_STAR2 in ctx.default_signature.arg_kinds and (primary := primary_of(info)):
        arguments = {
            name: value for name, value in _arguments(call).items() if name not in {"only", "consistent", "when"}
        }
        owner = f"{method}({info.name})"
        _check_names(ctx.api, call, owner, primary[1].fields, primary[1].fields, arguments)
        _check_types(ctx.api, owner, info, arguments)
    if not is_class and method in OF_KEY:
        _check_key(ctx.api, call.args[0], method)
    _check_owners(ctx.api, call.args[1:], info)
    _check_logic(ctx.api, call.args[1:])
    if method in {"update", "merge"}:
        _check_actions(ctx.api, call.args[1:], info)
    return ctx.default_signature


def conditions_given(ctx: MethodSigContext) -> FunctionLike:
    """Check that the conditions of a query are on fields of its entity."""
    call, info = ctx.context, _entity(ctx.type)
    if isinstance(call, CallExpr) and info is not None:
        _check_owners(ctx.api, call.args, info)
        _check_logic(ctx.api, call.args)
    return ctx.default_signature


def _entity(type_: Type) -> TypeInfo | None:
    """The entity class of a class, an instance or a query; None if it is not one certain class."""
    type_ = get_proper_type(type_)
    if isinstance(type_, Instance) and type_.type.fullname == QUERY:
        type_ = get_proper_type(type_.args[0])
    elif isinstance(type_, TypeType):
        type_ = get_proper_type(type_.item)
    elif isinstance(type_, FunctionLike) and type_.is_type_obj():
        return type_.type_object() if type_.type_object().has_base(ENTITY) else None
    is_one = isinstance(type_, Instance) and type_.type.has_base(ENTITY)
    return type_.type if is_one and isinstance(type_, Instance) else None


def _arguments(call: CallExpr) -> dict[str, Expression | None]:
    """The values of a call by name; under "" if there are others, in ``**values``."""
    named = zip(call.arg_names, call.arg_kinds, call.args, strict=True)
    return {name or "": value if name else None for name, kind, value in named if kind in {ARG_NAMED, ARG_STAR2}}


def _check_names(
    api: CheckerPluginInterface,
    call: CallExpr,
    owner: str,
    fields: Sequence[str],
    partition: Sequence[str],
    keywords: Iterable[str],
) -> None:
    names = dict.fromkeys(name for name in keywords if name)
    if "" in keywords:
        names |= dict.fromkeys(fields)
    wrong = wrong_names(fields, partition, names)
    if wrong is not None:
        api.fail(f"{owner} {wrong}", call, code=CALL_ARG)


def _check_types(
    api: CheckerPluginInterface, owner: str, info: TypeInfo, arguments: dict[str, Expression | None]
) -> None:
    for name, value in arguments.items():
        expected = field_type(info, name)
        if expected is None or value is None:
            continue
        actual = get_proper_type(api.get_expression_type(value, expected))
        if isinstance(actual, NoneType) or not is_subtype(actual, expected):
            actual_text, expected_text = (format_type(type_, api.options) for type_ in (actual, without_none(expected)))
            api.fail(
                f"{owner}: {name!r} is of type {actual_text}, but the field is of type {expected_text}",
                value,
                code=ARG_TYPE,
            )


def _check_key(api: CheckerPluginInterface, which: Expression, method: str) -> None:
    """Check that a pattern call in place of a key is one: of the primary key, with all fields."""
    if not isinstance(which, CallExpr) or not isinstance(which.callee, MemberExpr):
        return
    bound = get_proper_type(api.get_expression_type(which.callee))
    info = _entity(bound.args[0]) if isinstance(bound, Instance) and bound.type.has_base(BOUND) else None
    pattern = pattern_of(info, which.callee.name) if info else None
    if info is None or pattern is None:
        return
    arguments, name = _arguments(which), f"{info.name}.{which.callee.name}()"
    lacking = [field for field in pattern.fields if field not in arguments and "" not in arguments]
    if pattern.kind != PRIMARY:
        primary = primary_of(info)
        instead = f": use {info.name}.{primary[0]}(...)" if primary else ""
        api.fail(f"{name} is a query, and {method}() takes the key of one item{instead}", which, code=ODM)
    elif lacking and {*pattern.partition} <= {*arguments}:
        api.fail(f"{name} needs {lacking[0]!r} too: {method}() takes the key of one item", which, code=ODM)


def _check_owners(api: CheckerPluginInterface, arguments: Iterable[Expression], info: TypeInfo) -> None:
    """Check that conditions and actions are on fields of an entity."""
    for field in fields_in(arguments):
        node = field.expr.node if isinstance(field.expr, RefExpr) else None
        if isinstance(node, TypeInfo) and info not in node.mro and node not in info.mro:
            api.fail(f"{node.name}.{field.name} is not a field of {info.name}", field, code=ODM)


def _check_logic(api: CheckerPluginInterface, arguments: Iterable[Expression]) -> None:
    """Check that conditions are combined with what Python can give another meaning: ``&`` and not ``and``."""
    for argument in arguments:
        wrong = None
        if isinstance(argument, OpExpr):
            if argument.op in {"and", "or"} and any(fields_in([argument.left])):
                sign = "&" if argument.op == "and" else "|"
                wrong = f"write {sign} in place of {argument.op}, with each condition in parentheses"
            elif argument.op in {"&", "|"}:
                _check_logic(api, (argument.left, argument.right))
        elif isinstance(argument, UnaryExpr) and argument.op == "not" and any(fields_in([argument.expr])):
            wrong = "write not_(...) in place of not"
        elif isinstance(argument, ComparisonExpr) and any(fields_in(argument.operands[:2])):
            if len(argument.operators) > 1:
                wrong = "write between(field, low, high), or two conditions"
            elif argument.operators[0] in WORDS and any(fields_in(argument.operands[:1])):
                wrong = f"write {WORDS[argument.operators[0]]}"
        if wrong is not None:
            api.fail(f"a condition cannot be made this way: {wrong}", argument, code=ODM)


def _check_actions(api: CheckerPluginInterface, arguments: Iterable[Expression], info: TypeInfo) -> None:
    """Check that actions are on fields that an update may change."""
    primary = primary_of(info)
    for action in arguments:
        if not isinstance(action, CallExpr) or not isinstance(action.callee, RefExpr) or not action.args:
            continue
        field = action.args[0]
        if action.callee.fullname not in ACTIONS or not isinstance(field, MemberExpr) or not any(fields_in([field])):
            continue
        if primary and field.name in primary[1].fields:
            why = f"{field.name} is part of the primary key and cannot be changed"
            api.fail(f"{info.name}.{why}: insert an item under the new key and delete this one", field, code=ODM)
        elif (mark := marker_of(info, field.name)) in AUTOMATIC:
            api.fail(f"{info.name}.{field.name} is the {mark}, which {AUTOMATIC[mark]}: leave it out", field, code=ODM)


def fields_in(arguments: Iterable[Expression]) -> Iterator[MemberExpr]:
    """The fields in conditions, actions and lists of them: ``Order.total > 5``, ``set_(Order.total, 1)``."""
    for field in _attributes(arguments):
        node = field.expr.node if isinstance(field.expr, RefExpr) else None
        if isinstance(node, TypeInfo) and node.has_base(ENTITY) and field.name in field_names(node):
            yield field


def _attributes(arguments: Iterable[Expression]) -> Iterator[MemberExpr]:
    for argument in arguments:
        if isinstance(argument, MemberExpr):
            yield from (
                [argument]
                if isinstance(argument.expr, RefExpr) and isinstance(argument.expr.node, TypeInfo)
                else _attributes([argument.expr])
            )
        elif isinstance(argument, IndexExpr):
            yield from _attributes([argument.base])
        elif isinstance(argument, ComparisonExpr):
            yield from _attributes(argument.operands)
        elif isinstance(argument, OpExpr):
            yield from _attributes([argument.left, argument.right])
        elif isinstance(argument, ListExpr | TupleExpr):
            yield from _attributes(argument.items)
        elif (
            isinstance(argument, CallExpr)
            and isinstance(argument.callee, RefExpr)
            and argument.callee.fullname.startswith(BUILD)
        ):
            yield from _attributes(argument.args)
