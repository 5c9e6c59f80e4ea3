"""The tables of the tests of Beam, and the functions that its workers import."""

from collections.abc import Iterator
from typing import Annotated, Any

from attrs import frozen

from odm import AccessPattern, Entity, PrimaryKey, Revision, Store, Table
from odm.backends.bigtable import Bigtable
from odm.backends.local import LocalFile
from odm.immutable import evolve
from odm.protocol import requests as req
from odm.protocol.connection import Backend, ForwardingConnection, NativeGen
from odm.schema.model import Schema

sources, results, foreign = Table("beam-source"), Table("beam-result"), Table("beam-result")


class Reading(Entity, table=sources):
    """What a meter read."""

    meter: int
    number: int
    value: int = 0

    primary = PrimaryKey("METER#{meter}", "{number}")


class Peak(Entity, table=results):
    """A reading of more than a given value; indexed by it."""

    meter: int
    number: int
    value: int

    primary = PrimaryKey("PEAK#{number}", "{meter}")
    by_value = AccessPattern("PEAKS", "{value:desc}#{meter}#{number}")


class Copy(Entity, table=results):
    """One of several items that are made of a reading."""

    meter: int
    number: int
    copy_: int

    primary = PrimaryKey("COPY#{meter}", "{number}#{copy_}")


class Locked(Entity, table=results):
    """A batch cannot write it."""

    name: str
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("LOCKED#{name}")


class Intruder(Entity, table=foreign):
    """An item of another program, under the key of a copy."""

    meter: int
    number: int
    copy_: int

    primary = PrimaryKey("COPY#{meter}", "{number}#{copy_}")


READINGS = [Reading(meter=n % 5, number=n, value=n % 11) for n in range(60)]


def parts_of(reading: Reading) -> Iterator[Peak | Copy]:
    """A peak of a high reading, and copies of every third one."""
    if reading.value > 5:
        yield Peak(meter=reading.meter, number=reading.number, value=reading.value)
    for number in range(reading.value % 3):
        yield Copy(meter=reading.meter, number=reading.number, copy_=number)


MADE = [one for reading in READINGS for one in parts_of(reading)]


def backend(kind: str, place: str) -> Backend:
    """A backend by the name of its kind, and its file, endpoint or instance."""
    match kind:
        case "file":
            return LocalFile(place)
        case "lossy":
            return Lossy(LocalFile(place))
        case "bigtable":
            address, _, instance = place.partition("/")
            return Bigtable("project", instance, endpoint=address)
        case _:
            import boto3

            from odm.backends.dynamodb import DynamoDB

            address, _, key = place.partition("|")
            session = boto3.Session(aws_access_key_id=key, aws_secret_access_key="secret", region_name="eu-west-1")
            return DynamoDB(session, endpoint_url=address)


def source(kind: str, place: str) -> Store:
    """The store of the readings."""
    return Store(sources, backend(kind, place))


def target(kind: str, place: str) -> Store:
    """The store of what is derived."""
    return Store(results, backend(kind, place))


@frozen
class Lossy(Backend):
    """Loses the put of one item of a batch, and changes another."""

    inner: Backend
    name: str = "lossy"

    def connect(self, schema: Schema) -> "LossyConnection":
        return LossyConnection(self.inner.connect(schema))


class LossyConnection(ForwardingConnection[Any]):
    def steps(self, request: req.Request) -> NativeGen[Any, Any]:
        return (yield from self.inner.steps(_spoilt(request)))

    def answer(self, request: req.Request) -> Any:
        return self.inner.answer(_spoilt(request))


def _spoilt(request: req.Request) -> req.Request:
    if not isinstance(request, req.BatchWrite):
        return request
    kept = []
    for one in request.operations:
        if isinstance(one, req.Put) and one.item.get("number") == 7:
            continue
        if isinstance(one, req.Put) and one.item.get("number") == 8 and "value" in one.item:
            one = evolve(one, item={**one.item, "value": 99})  # noqa: PLW2901
        kept.append(one)
    return evolve(request, operations=tuple(kept))


def parts_of_nothing() -> int:
    """Not a store."""
    return 3
