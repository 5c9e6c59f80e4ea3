"""Checks of the functions that make conditions and actions: their values have the type of the field."""

from typing import Final

from mypy.expandtype import expand_type
from mypy.maptype import map_instance_to_supertype
from mypy.plugin import CheckerPluginInterface, FunctionSigContext
from mypy.types import AnyType, FunctionLike, Instance, ProperType, Type, UnionType, get_proper_type, has_type_vars

from odm.mypy.calls import BUILD, fields_in
from odm.mypy.declarations import without_none

WHOLE: Final = {BUILD + name for name in ("between", "is_in", "set_", "set_if_missing")}
"""The functions whose first argument is a field, and whose others are values of it."""

PART: Final = {BUILD + name for name in ("add_to", "append", "contains", "discard_from", "prepend")}
"""Those whose others are elements of the field, or parts of its text."""


def values_given(ctx: FunctionSigContext, *, part: bool) -> FunctionLike:
    """The signature for the type of the field. By itself, mypy finds a type that both the field and any value have."""
    signature = ctx.default_signature
    if not ctx.args or len(ctx.args[0]) != 1 or not any(fields_in(ctx.args[0])):
        return signature
    field = get_proper_type(ctx.api.get_expression_type(ctx.args[0][0]))
    expected: Type | None = _element(field) if part else field
    if expected is None or isinstance(expected, AnyType) or has_type_vars(expected):
        return signature
    expected = _with_int(ctx.api, expected)
    if not signature.variables:  # contains() takes a field and a value of any type
        return signature.copy_modified(arg_types=[signature.arg_types[0], expected])
    bound = expand_type(signature, {variable.id: expected for variable in signature.variables})
    return bound.copy_modified(variables=[])


def _element(field: ProperType) -> ProperType | None:
    """The type of the elements of a list or set, and of the parts of a text."""
    field = without_none(field)
    if not isinstance(field, Instance) or field.type.has_base("typing.Mapping"):
        return None
    for base in field.type.mro:
        if base.fullname in {"builtins.str", "builtins.bytes"}:
            return map_instance_to_supertype(field, base)
        if base.fullname == "typing.Iterable":
            return get_proper_type(map_instance_to_supertype(field, base).args[0])
    return None


def _with_int(api: CheckerPluginInterface, type_: Type) -> Type:
    """The type; for a Decimal also int, which is exact and which comparisons with it take too."""
    of = without_none(get_proper_type(type_))
    if isinstance(of, Instance) and of.type.fullname in {"decimal.Decimal", "_decimal.Decimal"}:
        return UnionType.make_union([type_, api.named_generic_type("builtins.int", [])])
    return type_
