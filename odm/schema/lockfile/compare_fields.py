"""Changes of the stored form of fields, at the top level of an item and in nested models."""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from odm.schema.lockfile.description import FieldLock
from odm.schema.lockfile.finding import Finding

_WIDER: Final = {
    "Decimal": frozenset({"int"}),
    "str": frozenset({"UUID", "date", "datetime", "time"}),
}
"""Stored type to the types whose stored values it can read unchanged."""


_Limit: TypeAlias = int | float | str
_Limits: TypeAlias = Mapping[str, _Limit]

_LOWER: Final = frozenset({"ge", "gt", "min_length"})
"""Limits that allow more if they are smaller; other numeric limits allow more if they are larger."""
_EXACT: Final = frozenset({"multiple_of", "pattern", "uuid_version"})


def compare_fields(where: str, old: Mapping[str, FieldLock], new: Mapping[str, FieldLock]) -> Iterator[Finding]:
    """Compare the fields of one model, and of the models nested in it.

    Args:
        where: the owner of the fields, such as ``Customer`` or ``Customer.address``.
        old: the locked fields, by stored name.
        new: the current fields.
    """
    gone = {_name(stored, field): stored for stored, field in old.items() if stored not in new}
    for stored, field in new.items():
        name = _name(stored, field)
        here = f"{where}.{name}"
        if stored in old:
            yield from _changed(here, old[stored], field)
        elif name in gone:
            yield _stored_elsewhere(here, gone.pop(name), stored)
        else:
            yield _added(here, field)
    for name, stored in gone.items():
        yield _removed(f"{where}.{name}", stored, old[stored])


def _name(stored: str, field: FieldLock) -> str:
    return field.field or stored


def _stored_elsewhere(where: str, old: str, new: str) -> Finding:
    effect = "stored values are under the old name and are not read"
    fix = f'keep it with Annotated[..., Stored("{old}")], or read with the old model and put with the new one'
    return Finding("orphans", where, "stored name", old, new, effect, fix)


def _added(where: str, field: FieldLock) -> Finding:
    if field.absent != "error":
        return Finding("safe", where, "new field", "", field.type)
    effect = "stored items lack it and raise ItemInvalid"
    return Finding("orphans", where, "new field without default", "", field.type, effect, "give it a default")


def _removed(where: str, stored: str, field: FieldLock) -> Finding:
    effect = "stored values are no longer read, and the next put drops them"
    fix = f'if it was renamed, keep the stored name with Annotated[..., Stored("{stored}")]'
    return Finding("orphans", where, "removed field", field.type, "", effect, fix)


def _changed(where: str, old: FieldLock, new: FieldLock) -> Iterator[Finding]:
    if old.type != new.type:
        yield _retyped(where, old, new)
    else:
        for before, after in zip(old.models, new.models, strict=False):
            yield from compare_fields(where, before, after)
    yield from _revalued(where, old, new)
    yield from _limited(where, old.limits, new.limits)
    yield from _absent(where, old, new)


def _retyped(where: str, old: FieldLock, new: FieldLock) -> Finding:
    if new.type == "Any":
        return Finding("safe", where, "type", old.type, new.type, "stored values read unchanged, a datetime as text")
    if old.type in _WIDER.get(new.type, ()) and new.values is None:
        return Finding("safe", where, "type", old.type, new.type, "stored values read as before")
    effect = "stored values have the old form, and may raise ItemInvalid or read as something else"
    fix = "convert them: read with the old model and put with the new one"
    return Finding("orphans", where, "type", old.type, new.type, effect, fix)


def _revalued(where: str, old: FieldLock, new: FieldLock) -> Iterator[Finding]:
    """Values of a Literal or Enum that were added or removed."""
    if old.type != new.type or old.values == new.values:
        return
    was, now = ("any" if side.values is None else ", ".join(map(repr, side.values)) for side in (old, new))
    if new.values is None or (old.values is not None and {*old.values} <= {*new.values}):
        yield Finding("safe", where, "allowed values", was, now)
    else:
        effect = "items stored with a removed value raise ItemInvalid"
        yield Finding("orphans", where, "allowed values", was, now, effect, "change them with the old model first")


def _limited(where: str, old: _Limits, new: _Limits) -> Iterator[Finding]:
    """Constraints that were added, removed or changed."""
    if old == new:
        return
    was, now = (", ".join(f"{name}={value}" for name, value in sorted(side.items())) or "none" for side in (old, new))
    if all(_is_looser(name, old.get(name), value) for name, value in new.items()):
        yield Finding("safe", where, "limits", was, now)
    else:
        effect = "values stored outside the new limits raise ItemInvalid, or read as other values"
        yield Finding("orphans", where, "limits", was, now, effect, "change those with the old model first, if any")


def _is_looser(name: str, old: _Limit | None, new: _Limit) -> bool:
    """Whether a limit allows at least what it allowed before."""
    if old == new:
        return True
    if name.rpartition(".")[2] in _EXACT or not (isinstance(old, int | float) and isinstance(new, int | float)):
        return False
    return new <= old if name.rpartition(".")[2] in _LOWER else new >= old


def _absent(where: str, old: FieldLock, new: FieldLock) -> Iterator[Finding]:
    """The value of the field in an item that lacks it, or has None in it."""
    was, now = (_default(side) for side in (old, new))
    if new.absent == "error" and old.absent != "error":
        effect = "items stored without it raise ItemInvalid"
        fix = "keep the default, or put() every stored item again with the old model first"
        if old.absent == "none":
            fix = "keep the default, or give every stored item a value first"
        yield Finding("orphans", where, "default", was, now, effect, fix)
    elif old.optional and not new.optional and old.absent != "none":
        effect = "items stored with None in it raise ItemInvalid"
        yield Finding("orphans", where, "type", f"{old.type} | None", new.type, effect, "give them a value first")
    elif old.absent == "none" and new.absent == "default":
        effect = "items stored with None read as the default; their index entries change when they are written again"
        yield Finding("backfill", where, "default", was, now, effect, "put() every stored item again")


def _default(field: FieldLock) -> str:
    return {"error": "required", "none": "None", "default": "a default"}[field.absent]
