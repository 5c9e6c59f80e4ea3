"""The mypy plugin: ``plugins = ["odm.mypy"]`` in the configuration of mypy finds mistakes in keys and patterns.

mypy reads a class in two passes. In the first, `OdmPlugin.read` takes the templates of patterns from the class body,
while it is still an AST, and stores the names of their fields with the class (`TypeInfo.metadata`, which mypy keeps in
its cache). In the second, where types are known, hooks compare declarations with fields and calls with declarations.

What it cannot know for certain, such as a template that is not a literal, it does not report. It has no influence on
types, except that the type of a declaration names the fields of its key: mypy's daemon then checks calls again when
they change.
"""

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from mypy.nodes import AssignmentStmt, Block, CallExpr, FuncDef, TypeInfo
from mypy.options import Options
from mypy.plugin import ClassDefContext, FunctionContext, FunctionSigContext, MethodSigContext, Plugin
from mypy.types import AnyType, FunctionLike, Instance, Type, TypeOfAny, get_proper_type

from odm.mypy.calls import CALLABLE, CALLED, METHODS, QUERY, conditions_given, method_called, pattern_called
from odm.mypy.checks import broken, check_class, check_signature, faults
from odm.mypy.declarations import (
    DECLARED,
    ENTITY,
    ODM,
    PRIMARY,
    as_declared,
    data_of,
    declarations_in,
    field_type,
    is_known,
    kind_of,
    marked_in,
    optional_in,
    pattern_of,
    statements_of,
)
from odm.mypy.values import PART, WHOLE, values_given

# mypy discards its cache when this changes; by itself it would look at this file only.
__version__ = sha256(b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()


class OdmPlugin(Plugin):
    """The hooks of mypy that odm uses."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._beside_pydantic = "pydantic.mypy" in options.plugins
        # Of each declaration, by its place: the class and attribute, and the function that it decorates. Only for the
        # classes that this process reads, so nothing of it is needed when a module comes from the cache.
        self._places: dict[tuple[str, int, int], tuple[TypeInfo, str, FuncDef | None]] = {}

    def get_customize_class_mro_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """Hook into the classes that may declare patterns; others are left to other plugins."""
        symbol = self.lookup_fully_qualified(fullname)
        is_local = "@" in fullname  # of a function: it is not in the table of its module yet
        node = symbol.node if symbol else None
        return self.read if is_local or (isinstance(node, TypeInfo) and node.has_base(ENTITY)) else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """Hook into declarations."""
        return self.declared if fullname in DECLARED else None

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        """Hook into the functions that make conditions and actions."""
        return partial(values_given, part=fullname in PART) if fullname in WHOLE | PART else None

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], FunctionLike] | None:
        """Hook into calls of patterns, conditions of queries, and methods of stores that take a key."""
        owner, _, method = fullname.rpartition(".")
        if owner in CALLABLE:
            return pattern_called if method == "__call__" else None
        if owner == QUERY:
            return conditions_given if method == "where" else None
        symbol = self.lookup_fully_qualified(owner) if method in METHODS else None
        bases = symbol.node.mro if symbol and isinstance(symbol.node, TypeInfo) else ()
        return method_called if any(base.fullname in CALLED for base in bases) else None

    def read(self, ctx: ClassDefContext) -> None:
        """Take the declarations from the body of a class, before mypy reads it."""
        if not ctx.cls.info.has_base(ENTITY):
            return
        facts: dict[str, Any] = {"table": "table" in ctx.cls.keywords, "patterns": {}, "marked": {}, "optional": []}
        ctx.cls.info.metadata["odm"] = facts
        module = ctx.api.modules[ctx.api.cur_mod_id].path
        for block, at, statement in statements_of(ctx.cls.defs):
            if isinstance(statement, AssignmentStmt) and statement.unanalyzed_type is not None:
                facts["marked"] |= marked_in(statement, ctx.api)
                facts["optional"] += optional_in(statement)
            for name, call, function in declarations_in(statement):
                kind, by_function = kind_of(call.callee, ctx.api)
                if kind is None:
                    continue
                known = None if by_function or name in facts["patterns"] else as_declared(kind.fullname, call, ctx.api)
                facts["patterns"][name] = known or (PRIMARY if kind.has_base(PRIMARY) else "")
                self._places[module, call.line, call.column] = (ctx.cls.info, name, function)
                if function is not None:
                    function.is_static = True  # mypy 1 wants self in it otherwise
                if self._beside_pydantic and block is not None and function is None:
                    block.body[at] = Block([statement])  # where pydantic's plugin does not take it for a field

    def declared(self, ctx: FunctionContext) -> Type:
        """Compare a declaration in the body of an entity with its fields."""
        call, pattern_type = ctx.context, get_proper_type(ctx.default_return_type)
        info, name, function = self._places.get((ctx.api.path, call.line, call.column), (None, "", None))
        pattern = None if info is None else pattern_of(info, name)
        if info is not None and isinstance(call, CallExpr):
            for at, wrong in broken(call):
                ctx.api.fail(f"{info.name}.{name}: {wrong}", at, code=ODM)
        if info is None or pattern is None or not isinstance(pattern_type, Instance):
            return pattern_type
        if data_of(info)["table"]:
            for at, wrong in faults(ctx.api, info, pattern, call):
                ctx.api.fail(f"{info.name}.{name}: {wrong}", at, code=ODM)
            if next(first for first, record in data_of(info)["patterns"].items() if is_known(record)) == name:
                check_class(ctx.api, info, call)
        if function is not None:
            check_signature(ctx.api, f"{info.name}.{name}", info, pattern, function)
        for field in pattern.fields:
            pattern_type = pattern_type.copy_with_extra_attr(
                field, field_type(info, field) or AnyType(TypeOfAny.special_form)
            )
        return pattern_type


def plugin(version: str) -> type[Plugin]:
    """The entry point for mypy."""
    return OdmPlugin
