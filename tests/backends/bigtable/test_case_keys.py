"""Row keys of published use cases, byte for byte; the examples have others."""

from datetime import UTC, date, datetime

import pytest

from odm import Entity, PrimaryKey, Table
from odm.backends.bigtable.rows.keys import RowKeys

cases = Table("cases", row_key_join="#")


class Battery(Entity, table=cases):
    user: str
    at: datetime

    primary = PrimaryKey("BATTERY#{user}", "{at:%Y%m%d%H%M%S%3f}")


class Garden(Entity, table=cases):
    day: date

    primary = PrimaryKey("VEGGIEGARDEN", "{day:%Y%m%d}")


class Hat(Entity, table=cases):
    kind: str
    brand: str

    primary = PrimaryKey("hats", "{kind}#{brand}")


@pytest.mark.parametrize(
    ("entity", "row_key"),
    [
        (Battery(user="Corrie", at=datetime(2015, 3, 1, 12, 45, 1, 1000, UTC)), "BATTERY#Corrie#20150301124501001"),
        (Garden(day=date(2015, 3, 1)), "VEGGIEGARDEN#20150301"),
        (Hat(kind="fedoras", brand="brandA"), "hats#fedoras#brandA"),
    ],
)
def test_row_keys_equal_the_published_ones(entity: Entity, row_key: str) -> None:
    schema = cases.compile().entity(type(entity))
    assert RowKeys("#", hash_only=False).row_key(schema.key(vars(entity))) == row_key
