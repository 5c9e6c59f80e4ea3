"""A row of other programs that fits match= of two entities is of none: no write makes or changes one."""

from collections.abc import Callable
from typing import Annotated, Any
from uuid import uuid4

import pytest

from odm import Cell, Entity, ItemInvalid, PrimaryKey, Store, Table, exists, field, set_
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import CheckAndMutateRow, Entry, MutateRow, SetCell
from odm.backends.bigtable.driver import BigtableConnection


def declared() -> tuple[Any, Any]:
    """Locks, and states whose digest is a cell that sorts before the others."""
    table = Table(f"locks-{uuid4().hex[:8]}", row_style="verbatim")

    class Lock(Entity, table=table, match=exists(field("info"))):
        id: str
        info: Annotated[str | None, Cell("f:info", "text")] = None
        version: Annotated[int, Cell("f:version", "int64be")] = 0

        primary = PrimaryKey("{id}")

    class State(Entity, table=table, match=exists(field("digest"))):
        id: str
        digest: Annotated[str | None, Cell("f:digest", "text")] = None
        version: Annotated[int, Cell("f:version", "int64be")] = 0

        primary = PrimaryKey("{id}")

    return table, Lock


WRITES: dict[str, Callable[[Store, Any], object]] = {
    "update": lambda db, lock: db.update(lock.primary(id="a"), set_(lock.version, 2)),
    "update when": lambda db, lock: db.update(lock.primary(id="a"), set_(lock.version, 2), when=lock.version == 1),
    "put": lambda db, lock: db.put(lock(id="a", info="i", version=2), when=lock.version == 1),
    "delete": lambda db, lock: db.delete(lock.primary(id="a"), when=lock.version == 1),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_cell_of_the_other_entity_that_appears_meanwhile_prevents_the_write(
    bigtable_emulator: str, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    table, lock = declared()
    sent: list[object] = []
    plain = BigtableConnection.call

    def call(connection: BigtableConnection, native: Any) -> Any:
        if isinstance(native, CheckAndMutateRow) and not sent:
            sent.append(native)
            digest = SetCell("digest", b"d", 1000, "f")
            plain(connection, MutateRow(native.table, Entry(native.key, (digest,))))
        return plain(connection, native)

    with Store(table, Bigtable("project", "instance", endpoint=bigtable_emulator)) as db:
        db.create()
        db.put(lock(id="a", info="i", version=1))
        monkeypatch.setattr(BigtableConnection, "call", call)
        with pytest.raises(ItemInvalid, match="fit match= of Lock and State"):
            WRITES[write](db, lock)
        monkeypatch.setattr(BigtableConnection, "call", plain)
        assert sent
    rows = Table(table.name, row_style="verbatim")

    class Row(Entity, table=rows):
        id: str
        info: Annotated[str, Cell("f:info", "text")]
        digest: Annotated[str, Cell("f:digest", "text")]
        version: Annotated[int, Cell("f:version", "int64be")]

        primary = PrimaryKey("{id}")

    with Store(rows, Bigtable("project", "instance", endpoint=bigtable_emulator)) as db:
        assert db.get(Row, id="a") == Row(id="a", info="i", digest="d", version=1)
