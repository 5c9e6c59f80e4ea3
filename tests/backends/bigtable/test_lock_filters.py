"""The filters that find locks, over rows in which an increment has found no item."""

from odm.backends.bigtable.client.native import Cell
from odm.backends.bigtable.rows.ownership import Owned
from odm.backends.bigtable.transactions.lock_cells import Lock, LockCells
from tests.backends.bigtable.native_filters import passing

ROW = "row"
ORDER = {"c": 0, "d": 1, "talk": 2}
CELLS = LockCells("shop", Owned(homes={"Comment": "talk"}, families=("talk",)))
LOCK = Lock("t", 1, "r", None, (), "talk")
GHOST = (Cell("d", b"_t", b""), Cell("d", b"~r", b""))
ITEM = (Cell("talk", b"_t", b"Comment"), Cell("talk", b"~r", b"r"))
LOCKED = (ITEM[0], Cell("talk", b"~r", LOCK.revision.encode()), Cell("talk", b"~x", b"{}"))


def test_a_row_is_not_unlocked_because_of_an_increment_that_found_no_item() -> None:
    """Such a row may have an item in another family, whose lock a write would destroy."""
    for marks in ((), GHOST):
        assert passing(CELLS.locked(ROW), (*marks, *LOCKED), ORDER)
        assert not passing(CELLS.unlocked(ROW), (*marks, *LOCKED), ORDER)
        assert not passing(CELLS.locked(ROW), (*marks, *ITEM), ORDER)
        assert passing(CELLS.unlocked(ROW), (*marks, *ITEM), ORDER)
