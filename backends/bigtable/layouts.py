"""Which layout the rows of a table have."""

from odm.backends.bigtable.committed import Locks
from odm.backends.bigtable.declared import Declared
from odm.backends.bigtable.form import Form
from odm.backends.bigtable.kinds import kinds_of
from odm.backends.bigtable.layout import Layout, is_wide
from odm.backends.bigtable.locks import LockCells
from odm.backends.bigtable.native import FAMILY
from odm.backends.bigtable.placed import Placed
from odm.backends.bigtable.places import Places
from odm.backends.bigtable.wide import Wide
from odm.backends.bigtable.wide_locks import WideLockCells
from odm.schema.model import Schema


def places_of(schema: Schema, form: Form, layout: Layout, abort_after: float) -> Places:
    """Where the items of a table stand; ``abort_after`` as for `odm.backends.bigtable.committed.Locks`."""
    if schema.verbatim_rows:
        return Declared(schema.name, form, layout, kinds_of(schema, form))
    if is_wide(schema):
        return _wide(schema, form, layout, abort_after)
    cells = LockCells(schema.name, form.owned, loads_rows=not form.placements)
    locks = Locks(schema.name, cells, abort_after) if schema.transactions else None
    return (Placed if form.placements else Places)(schema.name, form, layout, locks=locks)


def _wide(schema: Schema, form: Form, layout: Layout, abort_after: float) -> Wide:
    of_tag = {tag: entity.family for tag, entity in schema.entities.items() if entity.family is not None}
    families = (FAMILY, *sorted({*of_tag.values()}))
    places = Wide(schema.name, form, layout, families, of_tag)
    if not schema.transactions:
        return places
    cells = WideLockCells(schema.name, form.owned, places=places)
    return Wide(schema.name, form, layout, families, of_tag, locks=Locks(schema.name, cells, abort_after))
