"""What the tests of the bundled engine share."""

from collections.abc import Callable
from typing import Any, TypeAlias

from odm.operations.ir import Request
from odm.schema.model import IndexSchema, Schema

Send: TypeAlias = Callable[[Request], Any]
"""Performs one request and returns its response."""


def schema_of(name: str = "shop", indexes: tuple[str, ...] = ("by_x", "by_y")) -> Schema:
    return Schema(name, {}, {index: IndexSchema(index, ()) for index in indexes})
