"""A store never changes items of another program in the same table: random calls on every backend.

``pytest --full --times 10 tests/sharing`` makes more calls.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import boto3
import pytest
from google.cloud.bigtable.data import BigtableDataClient
from google.cloud.bigtable_admin_v2 import BigtableTableAdminClient
from google.cloud.bigtable_admin_v2.services.bigtable_table_admin.transports import BigtableTableAdminGrpcTransport
from grpc import insecure_channel

from odm import Store
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.admin.commands import Admin as BigtableAdmin
from odm.backends.bigtable.maintenance.scrub import scrub
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.admin import Admin as DynamoDBAdmin
from odm.backends.local import LocalFile, Memory
from odm.immutable import evolve
from odm.protocol.admin import silent
from odm.protocol.connection import Backend
from tests.effort import times
from tests.sharing.programs import Boto3, GoogleClient, Models
from tests.sharing.walk import NOON, shared, walk

pytestmark = pytest.mark.slow

SESSION = boto3.Session(aws_access_key_id="sharing", aws_secret_access_key="x", region_name="eu-west-1")

Unknown = Literal["raise", "skip"]


@pytest.fixture(params=["raise", "skip"])
def on_unknown(request: pytest.FixtureRequest) -> Unknown:
    unknown: Unknown = request.param
    return unknown


def _store(backend: Backend, on_unknown: Unknown, prefix: str = "") -> Store:
    db = Store(shared, backend, prefix=prefix, on_unknown=on_unknown, clock=NOON.timestamp)
    db.create()
    return db


def _refused(failures: dict[str, int]) -> None:
    """Check that some calls met items of the other program."""
    assert failures.get("ItemInvalid", 0) > 0, failures


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_on_the_engine(tmp_path: Path, kind: str, on_unknown: Unknown, seed: int) -> None:
    backend = Memory() if kind == "memory" else LocalFile(tmp_path / "shared.db")
    with _store(backend, on_unknown) as db:
        _refused(walk(db, Models(backend), times(150, 300), seed))


@pytest.mark.parametrize("address", ["moto_server", "dynamodb_local"])
def test_on_dynamodb(request: pytest.FixtureRequest, address: str, on_unknown: Unknown) -> None:
    endpoint = request.getfixturevalue(address)
    prefix = f"{uuid4().hex[:8]}-"
    backend = DynamoDB(SESSION, endpoint_url=endpoint)
    with _store(backend, on_unknown, prefix) as db:
        client = SESSION.client("dynamodb", endpoint_url=endpoint)
        admin = DynamoDBAdmin(backend, evolve(shared.compile(), name=f"{prefix}shared", prefix=prefix))
        more = (partial(admin.apply, drop=True, tell=silent), partial(admin.survey, 50))
        _refused(walk(db, Boto3(client, f"{prefix}shared"), times(60, 100), 1, *more))


@pytest.fixture
def google(bigtable_emulator: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[BigtableDataClient]:
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", bigtable_emulator)
    client = BigtableDataClient(project="p")
    yield client
    client.close()


@pytest.mark.parametrize("seed", range(2))
def test_on_bigtable(bigtable_emulator: str, google: BigtableDataClient, on_unknown: Unknown, seed: int) -> None:
    prefix = f"{uuid4().hex[:8]}-"
    backend = Bigtable("p", "i", endpoint=bigtable_emulator)
    with _store(backend, on_unknown, prefix) as db:
        _add_family(bigtable_emulator, f"{prefix}shared", f"{prefix}shared.by_status")
        _refused(
            walk(db, GoogleClient(google, "i", f"{prefix}shared"), times(75, 150), seed, *_sweeps(backend, prefix))
        )


def _sweeps(backend: Bigtable, prefix: str) -> list[Callable[[], object]]:
    """Scrubs of every kind, by a clock at which all data is old, and the table operations of the command line."""

    def later() -> float:
        return (NOON + timedelta(days=40_000)).timestamp()

    def sweep(**options: Any) -> Callable[[], object]:
        return lambda: scrub(backend, shared, prefix=prefix, lease=0.001, clock=later, **options)

    schema = evolve(shared.compile(), name=f"{prefix}shared", prefix=prefix)
    admin = BigtableAdmin(backend, schema)
    applies = [partial(admin.apply, drop=drop, tell=silent) for drop in (False, True)]
    return [sweep(), sweep(expired=True), sweep(repair=True), *applies, partial(admin.survey, 50)]


def _add_family(address: str, *tables: str) -> None:
    admin = BigtableTableAdminClient(transport=BigtableTableAdminGrpcTransport(channel=insecure_channel(address)))
    for table in tables:
        name = f"projects/p/instances/i/tables/{table}"
        admin.modify_column_families(request={"name": name, "modifications": [{"id": "MD", "create": {}}]})
