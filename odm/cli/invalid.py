"""`odm invalid`: list or delete the stored items that do not fit their models."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import ValidationError
from typer import echo

from odm.cli.ask import NOT_CONFIRMED, agreed, number_of
from odm.cli.locations import store_at
from odm.cli.target import load_target
from odm.cli.usage import BadUsage
from odm.codec.types.stored import show
from odm.errors import BadValue
from odm.expressions.nodes import Path
from odm.immutable import Immutable
from odm.procedures.context import Context
from odm.procedures.upkeep.unfit import UnfitItem, delete_unchanged, unfit_page
from odm.protocol.requests import Position
from odm.schema.entity import EntitySchema
from odm.schema.model import Schema
from odm.stores.sync import Store

PAGE = 250
"""How many items are read at once."""


class Options(Immutable):
    """What to list, and what to do with it.

    Attributes:
        entity: only items of this entity; None: those of all.
        limit: stop after so many items that do not fit; None: read the whole table.
        format: how to print them.
        delete: delete them, if they have not changed since they were read.
        remove_most: also if they are most of the items that were read.
        yes: do not ask.
    """

    entity: str | None = None
    limit: int | None = None
    format: Literal["table", "json"] = "table"
    delete: bool = False
    remove_most: bool = False
    yes: bool = False


class Fault(Immutable):
    """Why an item does not fit.

    Attributes:
        field: the path of the value; "" if it is about the whole item.
        reason: Pydantic's reason, or that of the upgrade.
        value: the stored value, shortened; "" if nothing is stored there.
        fix: a call that fixes it.
    """

    field: str
    reason: str
    value: str
    fix: str


def invalid(target: str, place: str, options: Options) -> int:
    """List the items that do not fit their models, and delete them if that is asked for and confirmed.

    Args:
        target: ``module:table``.
        place: where the table is, in the syntax of `odm.cli.locations.store_at`.
        options: what to list, and what to do with it.

    Returns:
        The exit code: 1 if there are such items, also deleted ones.

    Raises:
        BadUsage: there is no such table, entity or location.
        OdmError: the models do not compile, or the table cannot be read or changed.
    """
    loaded = load_target(target)
    entity = None if options.entity is None else _entity(loaded.schema, options.entity)
    with store_at(place, loaded.table) as store:
        unfit, number = _read(store, loaded.schema, entity, options.limit)
        stop, undeleted = "", dict[int, str]()
        if options.delete and unfit:
            items_text = f"{len(unfit):,} of {number_of(number, 'item')} of table {store.name}"
            if 2 * len(unfit) > number and not options.remove_most:
                stop = (
                    f"{items_text} do not fit, more than half: are these the models that wrote them? "
                    "To delete them, add --remove-most"
                )
            elif not options.yes and not agreed(f"Delete {items_text}, which do not fit their models?"):
                stop = f"the deletion was {NOT_CONFIRMED}"
            else:
                undeleted = _delete(store, unfit)
    deleted = len(unfit) - len(undeleted) if options.delete and not stop else 0
    if options.format == "json":
        _print_json(store.name, unfit, number, undeleted, deleted)
    else:
        _print_table(unfit, undeleted, deleted=bool(deleted))
        done = f"; {deleted:,} deleted" if options.delete else "; to delete them, add --delete" if unfit else ""
        echo(f"table {store.name}: {len(unfit):,} of {number_of(number, 'item')} read do not fit{done}")
    if stop:
        echo(f"odm: table {store.name}: nothing was deleted: {stop}", err=True)
    return int(bool(unfit))


def _entity(schema: Schema, name: str) -> EntitySchema:
    for entity in schema.entities.values():
        if entity.name == name:
            return entity
    names = ", ".join(entity.name for entity in schema.entities.values() if "." not in entity.name)
    raise BadUsage(f"--entity {name}: table {schema.name!r} has no such entity; it has {names}")


def _read(
    store: Store, schema: Schema, entity: EntitySchema | None, limit: int | None
) -> tuple[Sequence[UnfitItem], int]:
    """The items that do not fit, and the number of items read."""
    context = Context(schema)
    unfit: list[UnfitItem] = []
    number, after = 0, None
    while True:
        page: tuple[list[UnfitItem], int, Position | None] = store.run(
            lambda _do, after=after: unfit_page(schema, context, entity, after, PAGE)  # type: ignore[misc]
        )
        unfit += page[0]
        number += page[1]
        after = page[2]
        if after is None or (limit is not None and len(unfit) >= limit):
            return unfit[:limit], number


def _delete(store: Store, unfit: Sequence[UnfitItem]) -> dict[int, str]:
    """Delete the items; returns why some were not, by their place in the list."""
    undeleted: dict[int, str] = {}
    for at, item in enumerate(unfit):
        try:
            deleted = store.run(lambda _do, item=item: delete_unchanged(item))  # type: ignore[misc]
        except BadValue as error:
            undeleted[at] = str(error)
            continue
        if not deleted:
            undeleted[at] = "another program has changed it since it was read: run the command again"
    return undeleted


def faults(unfit: UnfitItem) -> Iterator[Fault]:
    """Why an item does not fit, with a call that fixes it."""
    name, cause = unfit.entity.name, unfit.error.__cause__
    call = f"{name}.{unfit.entity.primary.name}(...)" if unfit.call is None else str(unfit.call)
    whole = f"db.put({name}(...)) over it"
    if not isinstance(cause, ValidationError):
        yield Fault("", str(unfit.error), "", whole if cause is None else "fix the upgrade, or the stored item")
        return
    for detail in cause.errors(include_url=False, include_context=False):
        path = _path(unfit.entity, detail["loc"])
        if path is None:
            yield Fault("", detail["msg"], "", whole)
            continue
        value = "" if detail["type"] == "missing" else show(detail["input"])
        keyed = path.root in unfit.entity.primary.sources
        fix = whole if keyed or unfit.call is None else f"db.update({call}, set_({name}.{path}, ...))"
        yield Fault(str(path), detail["msg"], value, fix)


def _path(entity: EntitySchema, location: tuple[int | str, ...]) -> Path | None:
    """The path of a reason of Pydantic; None if it is about the whole item."""
    if not location or location[0] not in entity.codec.stored:
        return None
    return Path(location)


def _print_table(unfit: Sequence[UnfitItem], undeleted: dict[int, str], *, deleted: bool) -> None:
    for at, item in enumerate(unfit):
        said = "" if not deleted else f"  not deleted: {undeleted[at]}" if at in undeleted else "  deleted"
        echo(f"{item.entity.name}  {_key(item)}{said}")
        for fault in faults(item):
            stored = f", stored: {fault.value}" if fault.value else ""
            echo(f"    {fault.field or 'the item'}: {fault.reason}{stored}")
            echo(f"    fix: {fault.fix}")


def _print_json(table: str, unfit: Sequence[UnfitItem], number: int, undeleted: dict[int, str], deleted: int) -> None:
    items: list[dict[str, Any]] = []
    for at, item in enumerate(unfit):
        items.append(
            {
                "entity": item.entity.name,
                "partition": item.key.partition,
                "sort": item.key.sort,
                "faults": [
                    {"field": fault.field, "reason": fault.reason, "value": fault.value, "fix": fault.fix}
                    for fault in faults(item)
                ],
                "deleted": bool(deleted) and at not in undeleted,
                "error": undeleted.get(at),
            }
        )
    echo(json.dumps({"table": table, "items": number, "deleted": deleted, "invalid": items}, indent=2))


def _key(unfit: UnfitItem) -> str:
    return " | ".join(filter(None, unfit.key))
