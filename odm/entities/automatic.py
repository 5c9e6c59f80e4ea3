"""The defaults of fields whose value the store assigns: `odm.Id`, `odm.CreatedAt` and `odm.UpdatedAt`."""

from pydantic import BaseModel

from odm.entities.markers import AUTO, AutomaticMarker, find_marker


def give_defaults(cls: type[BaseModel]) -> None:
    """Give the automatic fields of a new class the default `AUTO`, also where validation would refuse None.

    A class whose annotations cannot be resolved yet stays as it is: its fields have the default that they declare.
    """
    if not cls.__pydantic_complete__:
        return
    changed = False
    for info in cls.model_fields.values():
        if find_marker(info, AutomaticMarker) is None:
            continue
        if info.is_required():
            info.default, changed = AUTO, True
        if info.default is AUTO and (info.validate_default or cls.model_config.get("validate_default")):
            info.validate_default, changed = False, True
    if changed:
        cls.model_rebuild(force=True)
