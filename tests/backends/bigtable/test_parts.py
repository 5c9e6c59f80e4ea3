"""Where a table is divided into parts for a scan: evenly, and never inside a partition."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odm import Entity, PrimaryKey, Store, Table, Unsupported
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import Read, ReadRows, RowRange, Sample, SampleRowKeys
from odm.backends.bigtable.rows.keys import RowKeys
from odm.backends.bigtable.rows.pages import cut
from odm.protocol.requests import Part, Scan, Split
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.bigtable.playing import BUSY, play, procedures

joined = Table("joined")
doubled = Table("doubled", row_key_join="##")


class Customer(Entity, table=joined):
    name: str
    primary = PrimaryKey("CUSTOMER#{name}", "PROFILE")


class Region(Entity, table=joined):
    country: str
    name: str
    primary = PrimaryKey("REGION#{country}#{name:<5}", "R")


class Setting(Entity, table=joined):
    name: str
    primary = PrimaryKey("SETTINGS", "{name}")


class Tenant(Entity, table=doubled):
    name: str
    primary = PrimaryKey("TENANT#{name}")


class User(Entity, table=doubled):
    tenant: str
    name: str
    primary = PrimaryKey("TENANT#{tenant}#USER#{name}", "{name}")


SCHEMAS = [joined.compile(), doubled.compile()]
WORDS = st.sampled_from(["a", "ab", "b", "é", "a#b", "!"])


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, list[Key]]:
    schema = draw(st.sampled_from(SCHEMAS))
    entity = st.sampled_from(list(schema.entities.values()))
    names = ("name", "country", "tenant")
    drawn = draw(st.lists(st.tuples(entity, *(WORDS for _ in names)), min_size=1, max_size=12))
    return schema, [one.key(dict(zip(names, values, strict=True))) for one, *values in drawn]


@given(tables(), st.integers(2, 6), st.data())
def test_every_partition_lies_in_one_part(table: tuple[Schema, list[Key]], most: int, data: st.DataObject) -> None:
    schema, keys = table
    row_keys = RowKeys.of(schema)
    rows = sorted({row_keys.row_key(key).encode() for key in keys})
    picked = data.draw(st.lists(st.tuples(st.sampled_from(rows), st.integers(1, 20)), max_size=6))
    shortened = sorted({row[:length] for row, length in picked})  # samples need not be existing row keys
    parts = cut(RowKeys.of(schema), [Sample(key, n) for n, key in enumerate([*shortened, b""])], most)
    assert 1 <= len(parts) <= most
    assert parts[0].start == ""
    assert parts[-1].end is None
    assert all(one.end == other.start for one, other in pairwise(parts))
    bounds = [part.start.encode("utf-8", "surrogateescape") for part in parts]
    assert bounds == sorted(set(bounds))

    def number(key: Key) -> int:
        return sum(bound <= row_keys.row_key(key).encode() for bound in bounds)

    assert len({(key.partition, number(key)) for key in keys}) == len({key.partition for key in keys})


def test_parts_have_similar_sizes() -> None:
    samples = [Sample(f"CUSTOMER#{n:03}#PROFILE".encode(), n * 10) for n in range(100)]
    parts = cut(RowKeys.of(SCHEMAS[0]), [*samples, Sample(b"", 1000)], 4)
    assert [part.start for part in parts] == ["", "CUSTOMER#025", "CUSTOMER#050", "CUSTOMER#075"]


def test_there_are_at_most_as_many_parts_as_samples() -> None:
    assert cut(RowKeys.of(SCHEMAS[0]), [], 4) == cut(RowKeys.of(SCHEMAS[0]), [Sample(b"", 100)], 4) == (Part("", None),)
    two = (Part("", "CUSTOMER#m"), Part("CUSTOMER#m", None))
    assert cut(RowKeys.of(SCHEMAS[0]), [Sample(b"CUSTOMER#m#PROFILE", 50), Sample(b"", 100)], 4) == two


def test_a_table_without_sort_keys_is_divided_at_rows() -> None:
    row_keys = RowKeys.of(Schema(name="shop", entities={}, indexes={}, hash_only=True))
    assert [part.start for part in cut(row_keys, [Sample(b"A#m#n", 50), Sample(b"", 100)], 2)] == [
        "",
        "A#m#n",
    ]


def test_samples_are_retried() -> None:
    ask = SampleRowKeys("shop")
    sent, answer = play(Split(2), BUSY, (Sample(b"m", 5), Sample(b"", 10)))
    assert [sent[0], sent[2]] == [ask, ask]
    assert answer == (Part("", "m"), Part("m", None))
    assert str(ask) == "sample-row-keys shop"


def test_a_part_is_a_range() -> None:
    sent, _ = play(Scan(part=Part("m", "q")), Read())
    assert sent == [ReadRows("shop", range=RowRange("m", "q"), limit=1000)]


def test_a_single_segment_is_refused_before_any_request() -> None:
    with pytest.raises(Unsupported, match="all segments in one call"):
        procedures().steps(Scan(segment=(0, 4)))
    nowhere = Bigtable("project", "instance", endpoint="127.0.0.1:1")
    with Store(joined, nowhere) as db, pytest.raises(Unsupported, match="segments=4"):
        list(db.scan(Customer, segment=(0, 4)))


@pytest.mark.parametrize("segments", [2, 30])
def test_many_parts_of_a_table_on_the_emulator(bigtable_emulator: str, segments: int) -> None:
    with Store(joined, Bigtable("project", "parts", endpoint=bigtable_emulator), prefix=f"p{segments}-") as db:
        db.create()
        customers = [Customer(name=f"{n:04}") for n in range(3000)]
        with db.batch() as batch:
            for customer in customers:
                batch.put(customer)
        with db.meter() as meter:
            assert sorted(db.scan(Customer, segments=segments), key=lambda one: one.name) == customers
        assert 2 + segments // 3 < meter.calls <= 1 + 4 + 2 * segments
