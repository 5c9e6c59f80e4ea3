"""Write suggested declarations: the text of a pattern with other templates or options."""

from collections.abc import Sequence

from odm.entities.patterns import AccessPattern, Pattern
from odm.keys import Shards
from odm.schema.entity import EntitySchema, PatternSchema


def declared(entity: EntitySchema, name: str) -> Pattern:
    """The declaration with this attribute name, in the class or its nearest base."""
    named = (vars(base).get(name) for base in entity.cls.__mro__)
    return next(attribute for attribute in named if isinstance(attribute, Pattern))


def sort_of(entity: EntitySchema, name: str) -> str:
    """The declared sort template; "" if there is none and the tag is used."""
    return declared(entity, name).sort or ""


def written(
    pattern: Pattern, *, partition: str = "", sort: str | None = None, shards: Shards | None = None, local: bool = True
) -> str:
    """A declaration as source text of a class body.

    Args:
        pattern: the declared pattern.
        partition: a template that replaces its own.
        sort: a sort template that replaces its own; "" for none.
        shards: shards that replace its own.
        local: False: without ``local=True``.
    """
    sort = pattern.sort if sort is None else sort
    shards = shards or pattern.shards
    arguments = [f'"{partition or pattern.partition}"', *([f'"{sort}"'] if sort else [])]
    arguments += [f"shards={shards!r}"] if shards is not None else []
    if isinstance(pattern, AccessPattern):
        arguments += _options(pattern, local and pattern.local)
    return f"{pattern.name} = {type(pattern).__name__}({', '.join(arguments)})"


def _options(pattern: AccessPattern, local: bool) -> list[str]:
    options = {
        "index": f'"{pattern.index}"' * (pattern.index is not None),
        "when": "..." * (pattern.when is not None),
        "local": "True" * local,
        "projection": repr(pattern.projection) * (pattern.projection != "all"),
    }
    return [f"{name}={text}" for name, text in options.items() if text]


def components(template: str) -> list[str]:
    """The parts of a template between '#', which a placeholder cannot contain."""
    return template.split("#") if template else []


def holds(component: str, fields: Sequence[str]) -> bool:
    """Whether the component has a placeholder of one of the fields."""
    return any(f"{{{field}{end}" in component for field in fields for end in ":}")


def key_fields(pattern: PatternSchema) -> frozenset[str]:
    """The fields whose whole value is somewhere in a key."""
    templates = [template for template in (pattern.partition, pattern.sort) if template is not None]
    return frozenset(slot.name for template in templates for slot in template.slots if not slot.type.lossy)
