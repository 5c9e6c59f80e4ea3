"""What is stored and read: readings of a meter, of eight cells a row with what odm stores next to the fields."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from pydantic import BaseModel

from odm import Entity, PrimaryKey, Table

METER: Final = "m0000001"
"""Whose readings are scanned."""

CELLS: Final = 8

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)

table = Table("readings")


class Reading(Entity, table=table):
    """A reading as odm has it."""

    primary = PrimaryKey("METER#{meter_id}", "{at}")

    meter_id: str
    at: datetime
    kwh: Decimal
    volts: int
    estimated: bool
    note: str


class Plain(BaseModel):
    """A reading as Pydantic alone has it."""

    meter_id: str
    at: datetime
    kwh: Decimal
    volts: int
    estimated: bool
    note: str


def fields(number: int) -> dict[str, Any]:
    """The fields of a reading."""
    return {
        "meter_id": METER,
        "at": _START + timedelta(minutes=15 * number),
        "kwh": Decimal(1001 + 2 * number).scaleb(-2),
        "volts": 228 + number % 5,
        "estimated": number % 4 == 0,
        "note": f"read by radio from van {number % 100:03d}",
    }
