"""Changes of what Pydantic and validators check and convert, in a field or in a whole model."""

from collections.abc import Iterator
from typing import Final

from odm.schema.lockfile.description import EntityLock, FieldLock, Limit, Limits
from odm.schema.lockfile.finding import Finding

_LOWER: Final = frozenset({"ge", "gt", "min_length", "str_min_length"})
"""Limits that allow more if they are smaller; other numeric limits allow more if they are larger."""
_EXACT: Final = frozenset({"multiple_of", "pattern", "uuid_version"})
_MODES: Final = frozenset({"regex_engine", "union_mode", "url_preserve_empty_path"})
"""What has another effect if it is absent, not none."""
_CONVERTING: Final = ("to_lower", "to_upper", "strip_whitespace")
"""The ends of the names of what changes values instead of refusing them."""


def compare_checks(where: str, old: EntityLock | FieldLock, new: EntityLock | FieldLock) -> Iterator[Finding]:
    """Compare the limits and validators of a field or model."""
    yield from _limited(where, old.limits, new.limits)
    if old.validators != new.validators:
        was, now = (", ".join(side.validators) or "none" for side in (old, new))
        effect = "code is not compared: stored values may raise ItemInvalid, or read as other values"
        fix = "read stored items with the new model before it is deployed, as db.scan() does"
        yield Finding("orphans", where, "validators", was, now, effect, fix)


def _limited(where: str, old: Limits, new: Limits) -> Iterator[Finding]:
    """Constraints that were added, removed or changed."""
    if old == new:
        return
    was, now = (", ".join(f"{name}={value}" for name, value in sorted(side.items())) or "none" for side in (old, new))
    looser = all(_is_looser(name.rpartition(".")[2], old.get(name), new.get(name)) for name in {*old, *new})
    if looser and any(name.endswith(_CONVERTING) and not new.get(name) for name in old):
        effect = "values stored before they were converted read as stored; those that calls give are not converted"
        fix = "put() every stored item again with the old model first"
        yield Finding("backfill", where, "limits", was, now, effect, fix)
    elif looser:
        yield Finding("safe", where, "limits", was, now)
    else:
        effect = "values stored outside the new limits raise ItemInvalid, or read as other values"
        yield Finding("orphans", where, "limits", was, now, effect, "change those with the old model first, if any")


def _is_looser(name: str, old: Limit | None, new: Limit | None) -> bool:
    """Whether a limit allows at least what it allowed before, and reads it as before."""
    if old == new or name == "use_enum_values":
        return True
    if name == "coerce_numbers_to_str":
        return new is not None
    if name == "boundary":
        return new in {None, "keep"}
    if new is None:
        return name not in _MODES
    if name in _EXACT or not (isinstance(old, int | float) and isinstance(new, int | float)):
        return False
    if name == "flags":
        return isinstance(old, int) and isinstance(new, int) and old & ~new == 0
    return new <= old if name in _LOWER else new >= old
