"""Checks of declarations: the templates of an entity, its marked fields, and the functions that patterns decorate."""

from collections.abc import Iterator
from typing import Final

from mypy.messages import format_type
from mypy.nodes import CallExpr, Context, FuncDef, StrExpr, TypeInfo
from mypy.plugin import (
    CheckerPluginInterface,
)
from mypy.subtypes import is_subtype
from mypy.types import CallableType, Instance, TupleType, get_proper_type

from odm.entities.signatures import wrong_parameters
from odm.keys.grammar import near, unpaired
from odm.mypy.declarations import (
    MARKED,
    ODM,
    PRIMARY,
    Declared,
    data_of,
    field_names,
    field_type,
    pattern_of,
    templates_of,
    without_none,
)

UNORDERED: Final = {f"builtins.{name}" for name in ("dict", "frozenset", "list", "set")}


def broken(call: CallExpr) -> Iterator[tuple[Context, str]]:
    """The templates of a declaration that no fields can make right, and why."""
    for template in templates_of(call):
        wrong = unpaired(template.value) if isinstance(template, StrExpr) else None
        if wrong is not None:
            yield template or call, wrong


def faults(
    api: CheckerPluginInterface, info: TypeInfo, pattern: Declared, call: Context
) -> Iterator[tuple[Context, str]]:
    """What is wrong with the fields of a pattern, and where."""
    texts = [arg for arg in call.args if isinstance(arg, StrExpr)] if isinstance(call, CallExpr) else []
    for field in dict.fromkeys((*pattern.fields, *pattern.others)):
        wrong = _fault(api, info, field, pattern)
        if wrong is not None:
            yield next((text for text in texts if f"{{{field}" in text.value), call), wrong


def _fault(api: CheckerPluginInterface, info: TypeInfo, field: str, pattern: Declared) -> str | None:
    """What is wrong with a field of a pattern, in the words of the error when the table is compiled."""
    symbol = info.get(field)
    if symbol is None:
        known = not any(base.fallback_to_any for base in info.mro)
        return near(field, field_names(info)) if known else None
    type_ = field_type(info, field)
    if field not in pattern.fields or type_ is None:
        return None
    type_ = without_none(type_)
    is_model = isinstance(type_, Instance) and type_.type.has_base("pydantic.main.BaseModel")
    if isinstance(type_, TupleType) or (isinstance(type_, Instance) and (type_.type.fullname in UNORDERED or is_model)):
        return f"field {field!r} is of type {format_type(type_, api.options)}, which has no order in keys"
    declared = next((data_of(base) for base in info.mro if field in data_of(base)["marked"]), {"optional": ()})
    if pattern.kind == PRIMARY and field in declared["optional"]:
        return f"field {field!r} may be None, and an item without a primary key cannot be stored"
    return None


def check_class(api: CheckerPluginInterface, info: TypeInfo, at: Context) -> None:
    """Check what belongs to no declaration of the class itself: inherited patterns, and the types of marked fields."""
    for base in info.mro[1:]:
        for name in data_of(base)["patterns"] if not data_of(base)["table"] else ():
            pattern = pattern_of(info, name) if name not in info.names else None
            for _, wrong in faults(api, info, pattern, at) if pattern else ():
                api.fail(f"{info.name}.{name}, inherited from {base.name}: {wrong}", at, code=ODM)
    for field, mark in data_of(info)["marked"].items():
        type_ = field_type(info, field)
        of = without_none(type_) if mark and type_ else None
        if isinstance(of, Instance) and not of.type.has_base(MARKED[mark]):
            mark_type, field_text = MARKED[mark].rpartition(".")[2], format_type(of, api.options)
            node = info.names[field].node
            api.fail(
                f"{info.name}.{field}: {mark} marks a field of type {mark_type}, not {field_text}", node or at, code=ODM
            )


def check_signature(
    api: CheckerPluginInterface, owner: str, info: TypeInfo, pattern: Declared, function: FuncDef
) -> None:
    """Compare the function that a pattern decorates with its templates and with the fields."""
    kinds = zip(function.arg_names, function.arg_kinds, strict=True)
    parameters = [(name or "", kind.is_named(), kind.is_optional()) for name, kind in kinds]
    wrong = wrong_parameters(pattern.fields, pattern.partition, parameters)
    if wrong is not None:
        api.fail(f"{owner}: {wrong}", function, code=ODM)
    elif isinstance(function.type, CallableType):
        for name, type_ in zip(function.arg_names, function.type.arg_types, strict=True):
            declared, stated = field_type(info, name or ""), without_none(get_proper_type(type_))
            of_field = declared and without_none(declared)
            if of_field and not (is_subtype(of_field, stated) and is_subtype(stated, of_field)):
                of, stated_text = (format_type(type_, api.options) for type_ in (of_field, stated))
                wrong = (
                    f"{name!r} is of type {of}, and of type {stated_text} in its signature: write the type of the field"
                )
                api.fail(f"{owner}: {wrong}", function, code=ODM)
