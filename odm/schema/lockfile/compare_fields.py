"""Changes of the stored form of fields, at the top level of an item and in nested models."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from odm.schema.lockfile.compare_checks import compare_checks
from odm.schema.lockfile.description import FieldLock, Limits
from odm.schema.lockfile.finding import Finding, backfill_of

_WIDER: Final = {
    "Decimal": frozenset({"int"}),
    "compressed str": frozenset({"str"}),  # not so for bytes, some of which begin like a compressed value
    "str": frozenset({"UUID", "date", "datetime", "time"}),
}
"""Stored type to the types whose stored values it can read unchanged."""

_PLAIN: Final = frozenset({"None", "bool", "bytes", "Decimal", "dict", "int", "list", "str"})
"""Types whose values read back equal without a declared type."""


def compare_fields(
    where: str, old: Mapping[str, FieldLock], new: Mapping[str, FieldLock], options: Limits
) -> Iterator[Finding]:
    """Compare the fields of one model, and of the models nested in it.

    Args:
        where: the owner of the fields, such as ``Customer`` or ``Customer.address``.
        old: the locked fields, by stored name.
        new: the current fields.
        options: of the current model's configuration.
    """
    names = {_name(stored, field): stored for stored, field in old.items()}
    gone = {name: stored for name, stored in names.items() if stored not in new}
    for stored, field in new.items():
        name = _name(stored, field)
        here = f"{where}.{name}"
        if stored in old:
            if names.get(name, stored) != stored:
                yield _stored_as_another(here, names[name], stored, _name(stored, old[stored]))
                gone.pop(name, None)
            yield from _changed(here, old[stored], field, options)
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


def _stored_as_another(where: str, old: str, new: str, owner: str) -> Finding:
    effect = f"it reads what was stored for {owner}, and not its own values, which are under the old name"
    return Finding("orphans", where, "stored name", old, new, effect, f'keep it with Annotated[..., Stored("{old}")]')


def _added(where: str, field: FieldLock) -> Finding:
    if field.absent == "factory":
        effect = "stored items lack it: each read and each condition calls the factory, which may make another value"
        return Finding("backfill", where, "new field", "", field.type, effect, "put() every stored item again")
    if field.absent != "error":
        effect = f"stored items lack it: they read, and conditions see, {_default(field)}"
        return Finding("safe", where, "new field", "", field.type, effect)
    effect = "stored items lack it and raise ItemInvalid"
    return Finding("orphans", where, "new field without default", "", field.type, effect, "give it a default")


def _removed(where: str, stored: str, field: FieldLock) -> Finding:
    effect = "stored values are no longer read, and the next put drops them"
    fix = f'if it was renamed, keep the stored name with Annotated[..., Stored("{stored}")]'
    return Finding("orphans", where, "removed field", field.type, "", effect, fix)


def _changed(where: str, old: FieldLock, new: FieldLock, options: Limits) -> Iterator[Finding]:
    if old.type != new.type:
        yield _retyped(where, old, new, options)
    else:
        for before, after in zip(old.models, new.models, strict=False):
            inner = {name.rpartition(".")[2]: value for name, value in new.limits.items()}  # those of any model in it
            yield from compare_fields(where, before, after, inner)
    yield from _revalued(where, old, new)
    yield from compare_checks(where, old, new)
    yield from _absent(where, old, new)


def _retyped(where: str, old: FieldLock, new: FieldLock, options: Limits) -> Finding:
    if new.type == "Any" and _PLAIN.issuperset(re.findall(r"\w+", old.type)):
        return Finding("safe", where, "type", old.type, new.type, "stored values read as before")
    if _is_wider(new, old) and not (new.type == "str" and any(name.startswith("str_") for name in options)):
        effect = "stored values read as their text" if new.type == "str" else "stored values read as before"
        return Finding("safe", where, "type", old.type, new.type, effect)
    effect = "stored values have the old form, and may raise ItemInvalid or read as something else"
    fix = "convert them: read with the old model and put with the new one"
    return Finding("orphans", where, "type", old.type, new.type, effect, fix)


def _is_wider(new: FieldLock, old: FieldLock) -> bool:
    """Whether a type reads stored values of another unchanged."""
    return old.type in _WIDER.get(new.type, ()) and new.values is None


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
    elif "error" not in {old.absent, new.absent} and _defaults_differ(old, new):
        read = f"what {now} makes each time" if new.absent == "factory" else f"{now}, and conditions see it too"
        effect = f"items stored without it read {read}"
        if old.absent == "none":
            effect = effect.replace("without it", "with None")
        fill = backfill_of(where.split(".", maxsplit=1)[0])
        fix = f"{fill}; to keep the old default for them, put() them with the old model first"
        yield Finding("backfill", where, "default", was, now, effect, fix)


def _defaults_differ(old: FieldLock, new: FieldLock) -> bool:
    """Not if stored values are of another type, which is a finding of its own."""
    return (old.absent, old.default) != (new.absent, new.default) and (
        old.absent == "none" or old.type == new.type or _is_wider(new, old)
    )


def _default(field: FieldLock) -> str:
    if field.absent in {"error", "none"}:
        return {"error": "required", "none": "None"}[field.absent]
    return field.default or "a default"
