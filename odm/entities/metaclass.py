"""The metaclass that makes ``Order.total`` a field reference.

It resolves only the names of the class's own fields, and not while a class is being built: pydantic then looks up
inherited defaults with ``getattr``, which would return references instead.
"""

import re
from contextvars import ContextVar
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel
from pydantic.errors import PydanticUserError

from odm.errors import SchemaError
from odm.expressions.nodes import Path
from odm.expressions.references import Reference
from odm.hints import ENTITY, hint

_building: ContextVar[bool] = ContextVar("_building", default=False)


class EntityMeta(type(BaseModel)):  # type: ignore[misc]  # pydantic's metaclass has no public name
    """Pydantic's metaclass, plus field references on the class."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> type:
        kwargs["ignored_types"] = _ignored_types(bases, namespace, kwargs)
        _check_namespace(name, namespace)
        token = _building.set(True)
        try:
            cls: type = super().__new__(mcs, name, bases, namespace, **kwargs)
            return cls
        except (PydanticUserError, ValueError) as error:
            if (reserved := re.search(_RESERVED, str(error))) is None:
                raise
            raise SchemaError(_reserved(name, reserved[1] or reserved[2])) from error
        finally:
            _building.reset(token)

    def __getattr__(cls, name: str) -> Any:
        if name in cls.__dict__.get("__pydantic_fields__", ()) and not _building.get():
            references = cls.__dict__.get(_REFERENCES)
            if references is None:
                references = {}
                type.__setattr__(cls, _REFERENCES, references)
            if name not in references:
                references[name] = Reference(Path((name,), cls))
            return references[name]
        if name.startswith("_") or _building.get():
            return super().__getattr__(name)  # pyright: ignore[reportAttributeAccessIssue]
        raise AttributeError(_no_such_name(cls, name))


_REFERENCES: Final = "__odm_references__"
"""The attribute of a class that has its references by name, each made at its first use."""

_RESERVED: Final = r"^`(model_config)` cannot be used as a model field name|^Field '(\w+)' conflicts with member"
"""What pydantic says of a field whose name it uses itself."""


def _reserved(cls: str, name: str) -> str:
    own = "to configure the class, write model_config = ConfigDict(...), without an annotation; for a field, "
    return (
        f"{cls}.{name}: pydantic uses the name {name!r}, so no field can have it: {own * (name == 'model_config')}"
        f'rename it, and keep the stored name with Annotated[..., Stored("{name}")] and the name in JSON with '
        f'Field(alias="{name}")'
    )


def _check_namespace(cls: str, namespace: dict[str, Any]) -> None:
    """Refuse the ways in which other libraries name the table of a class, which would have no effect."""
    meta = getattr(namespace.get("Meta"), "__dict__", {})
    names = {"__tablename__": namespace.get("__tablename__"), "Meta.table_name": meta.get("table_name")}
    for name, table in names.items():
        if table is not None:
            raise SchemaError(f"{cls}.{name} names no table here: write class {cls}(Entity, table=Table({table!r}))")


def _no_such_name(cls: Any, name: str) -> str:
    """What to write instead, or names to suggest: fields, and patterns, whose types are the model's ignored types."""
    if (known := hint(ENTITY, name, cls.__name__)) is not None:
        return f"{cls.__name__} has no field or pattern {name!r}: {known}"
    ignored = cls.model_config.get("ignored_types", ())
    declared = (attribute for base in reversed(cls.__mro__) for attribute in vars(base).items())
    names = [
        *cls.__dict__.get("__pydantic_fields__", ()),
        *dict.fromkeys(n for n, v in declared if isinstance(v, ignored)),
    ]
    near = get_close_matches(name, names, 1)
    suggested = f": did you mean {near[0]!r}?" if near else f"; it has {', '.join(names)}" if names else ""
    return f"{cls.__name__} has no field or pattern {name!r}{suggested}"


def _ignored_types(bases: tuple[type, ...], namespace: dict[str, Any], kwargs: dict[str, Any]) -> tuple[type, ...]:
    """The ignored types of all configurations together: in pydantic the last one wins, which drops the patterns."""
    configs = [*(getattr(base, "model_config", {}) for base in bases), namespace.get("model_config", {}), kwargs]
    return tuple(dict.fromkeys(ignored for config in configs for ignored in config.get("ignored_types", ())))


if TYPE_CHECKING:
    # Type checkers see Order.total with the type of the field, so they report wrong names and comparisons.
    ReferringModel = BaseModel
else:

    class ReferringModel(BaseModel, metaclass=EntityMeta, defer_build=True):
        """A model whose fields are references on the class."""

        def __getattr__(self, name: str) -> Any:
            if (known := hint(ENTITY, name, type(self).__name__)) is None or name in (self.model_extra or ()):
                return super().__getattr__(name)
            raise AttributeError(f"{type(self).__name__} has no field or method {name!r}: {known}", name=name, obj=self)

    # Nobody validates it, and to build its validator takes longer than to import the package. Subclasses build theirs.
    del ReferringModel.model_config["defer_build"]
