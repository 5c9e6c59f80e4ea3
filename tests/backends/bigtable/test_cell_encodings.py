"""The encodings that `odm.Cell` names: bytes of other programs, such as those of HBase, read and written exactly."""

import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Final

import pytest

from odm import (
    BadValue,
    Cell,
    ConditionFailed,
    Entity,
    ItemInvalid,
    PrimaryKey,
    Stored,
    Table,
    between,
    increment,
    is_in,
    not_,
    set_,
)
from tests.backends.bigtable.test_existing_rows import Place

sensors = Table("sensors", row_style="verbatim")


class Sensor(Entity, table=sensors):
    id: str
    rack: Annotated[int, Cell("m:rack", "int32be")] = 0
    port: Annotated[int | None, Cell("m:port", "int16be")] = None
    level: Annotated[int | None, Cell("m:level", "int8")] = None
    load: Annotated[float | None, Cell("m:load", "float32be")] = None
    live: Annotated[bool | None, Cell("m:live", "hbase_bool")] = None
    flag: Annotated[bool | None, Stored(format="number"), Cell("m:flag", "int8")] = None
    seen: Annotated[datetime | None, Stored(epoch="s"), Cell("m:seen", "int32be")] = None
    last: Annotated[str, Cell("m:z", "text")] = "z"  # sorts last, so a missing cell can be checked

    primary = PrimaryKey("S", "{id}")


SENSOR: Final = Sensor(
    id="1",
    rack=-2,
    port=513,
    level=-1,
    load=0.5,
    live=True,
    flag=True,
    seen=datetime(2026, 1, 5, 12, tzinfo=UTC),
)
CELLS: Final = {
    "m:rack": struct.pack(">i", -2),
    "m:port": struct.pack(">h", 513),
    "m:level": b"\xff",
    "m:load": struct.pack(">f", 0.5),
    "m:live": b"\xff",
    "m:flag": b"\1",
    "m:seen": struct.pack(">i", 1767614400),
    "m:z": b"z",
}
KEY: Final = Sensor.primary(id="1")


@pytest.fixture
def place(bigtable_emulator: str) -> Iterator[Place]:
    opened = Place(bigtable_emulator, sensors)
    yield opened
    opened.db.drop()
    opened.db.close()


def test_the_bytes(place: Place) -> None:
    place.db.put(SENSOR)
    assert place.cells() == {"S#1": CELLS}
    assert place.db.one(KEY) == SENSOR
    place.set("S#2", {"m:live": b"\0", "m:rack": b"\x7f\xff\xff\xff", "m:load": struct.pack(">f", 0.1), "m:z": b"z"})
    other = place.db.one(Sensor.primary(id="2"))
    assert (other.live, other.rack, other.load) == (False, 2**31 - 1, 0.10000000149011612)
    before = place.cells()
    place.db.put(other)
    assert place.cells() == before


REFUSED: Final = {
    "an int32 of 8 bytes": ("m:rack", struct.pack(">q", 1), "32 bits has 4 bytes, not 8"),
    "an int16 of a byte": ("m:port", b"\1", "16 bits has 2 bytes, not 1"),
    "an empty int8": ("m:level", b"", "8 bits has 1 byte, not 0"),
    "a float32 of 8 bytes": ("m:load", struct.pack(">d", 0.5), "32 bits has 4 bytes, not 8"),
    "a bool that HBase does not write": ("m:live", b"\1", "0xFF or 0x00"),
    "a bool of 2 bytes": ("m:live", b"\xff\xff", "0xFF or 0x00"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_other_bytes_are_refused(place: Place, fault: str) -> None:
    column, cell, says = REFUSED[fault]
    place.set("S#1", CELLS | {column: cell})
    for read in (lambda: place.db.get(KEY), lambda: list(place.db.scan(Sensor))):
        with pytest.raises(ItemInvalid, match=says):
            read()


WRITES: Final[dict[str, tuple[Callable[[Any], Any], dict[str, Any], str]]] = {
    "an int32": (lambda value: set_(Sensor.rack, value), {"rack": 2**31}, "-2147483648 to 2147483647"),
    "a negative int32": (lambda value: set_(Sensor.rack, value), {"rack": -(2**31) - 1}, "whole number of 32 bits"),
    "an int16": (lambda value: set_(Sensor.port, value), {"port": 2**15}, "-32768 to 32767"),
    "an int8": (lambda value: set_(Sensor.level, value), {"level": 128}, "-128 to 127"),
    "a float that is cut": (lambda value: set_(Sensor.load, value), {"load": 0.1}, "float of 32 bits"),
    "a float that is too large": (lambda value: set_(Sensor.load, value), {"load": 1e39}, "float of 32 bits"),
    "a time after 2038": (
        lambda value: set_(Sensor.seen, value),
        {"seen": datetime(2040, 1, 1, tzinfo=UTC)},
        "whole number of 32 bits",
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_values_without_bytes_are_refused(place: Place, write: str) -> None:
    action, values, says = WRITES[write]
    (value,) = values.values()
    place.db.put(SENSOR)
    calls: dict[str, Callable[[], Any]] = {
        "put": lambda: place.db.put(SENSOR.model_copy(update=values)),
        "insert": lambda: place.db.insert(SENSOR.model_copy(update={"id": "2", **values})),
        "update": lambda: place.db.update(KEY, action(value)),
        "update if": lambda: place.db.update(KEY, action(value), when=Sensor.rack == -2),
        "merge": lambda: place.db.merge(KEY, action(value)),
    }
    for call in calls.values():
        with pytest.raises(BadValue, match=says):
            call()
    assert place.cells() == {"S#1": CELLS}


def test_increments(place: Place) -> None:
    place.db.put(SENSOR)
    place.db.update(KEY, increment(Sensor.rack, 3), increment(Sensor.load, Decimal("0.25")), when=Sensor.live == True)  # noqa: E712
    assert place.cells()["S#1"] == CELLS | {"m:rack": struct.pack(">i", 1), "m:load": struct.pack(">f", 0.75)}
    for action in (increment(Sensor.rack, 2**31), increment(Sensor.load, Decimal("0.1")), increment(Sensor.level, 200)):
        with pytest.raises(BadValue, match=r"in the cell m:"):
            place.db.update(KEY, action)


RACKS: Final = (-(2**31), -300, -1, 0, 1, 255, 256, 2**31 - 1)


def test_conditions_are_those_of_python(place: Place) -> None:
    """Evaluated by the server where the bytes show it, and by odm in queries."""
    for at, rack in enumerate(RACKS):
        place.db.put(Sensor(id=str(at), rack=rack, load=rack / 256 if abs(rack) < 1000 else 2.0**40, live=rack > 0))
    conditions: list[tuple[Any, Callable[[int], bool]]] = [
        (Sensor.rack == -1, lambda rack: rack == -1),
        (Sensor.rack == 2**40, lambda _: False),
        (Sensor.rack < 2**40, lambda _: True),
        (Sensor.rack < 0, lambda rack: rack < 0),
        (Sensor.rack >= 255, lambda rack: rack >= 255),
        (between(Sensor.rack, -300, 255), lambda rack: -300 <= rack <= 255),
        (is_in(Sensor.rack, [0, 256, 2**40]), lambda rack: rack in (0, 256)),
        (not_(Sensor.rack > 0), lambda rack: rack <= 0),
        (Sensor.load == 1.0, lambda rack: rack == 256),
        (Sensor.load == 0.1, lambda _: False),
        (Sensor.live == True, lambda rack: rack > 0),  # noqa: E712
        (Sensor.live == False, lambda rack: rack <= 0),  # noqa: E712
    ]
    for condition, holds in conditions:
        expected = [str(at) for at, rack in enumerate(RACKS) if holds(rack)]
        assert [one.id for one in place.db.query(Sensor.primary().where(condition))] == expected, condition
        assert place.db.count(Sensor.primary().where(condition)) == len(expected), condition
        for at, rack in enumerate(RACKS):
            key = Sensor.primary(id=str(at))
            if holds(rack):
                place.db.update(key, set_(Sensor.port, 1), when=condition)
            else:
                with pytest.raises(ConditionFailed):
                    place.db.update(key, set_(Sensor.port, 1), when=condition)
