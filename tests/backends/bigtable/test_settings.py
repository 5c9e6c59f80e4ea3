"""Settings and names that are refused before any request, and when Google's packages are imported."""

import subprocess
import sys
from typing import Annotated, Any, Literal

import pytest
from google.auth.credentials import AnonymousCredentials
from pydantic import Field

from odm import Entity, PrimaryKey, Stored, Table
from odm.backends.bigtable import Bigtable
from odm.errors import BackendError, BadValue, SchemaError
from odm.immutable import evolve
from odm.protocol.connection import perform
from odm.protocol.requests import Get
from odm.schema.entity import Key
from odm.schema.model import IndexSchema, Schema

CREDENTIALS: Any = AnonymousCredentials
HERE = Bigtable("project", "instance", endpoint="127.0.0.1:1")


@pytest.mark.parametrize("name", ["a" * 51, "-shop", ".shop", "sh op", "shöp", ""])
def test_an_invalid_table_name(name: str) -> None:
    with pytest.raises(SchemaError, match="1 to 50 letters"):
        HERE.connect(Schema(name=name, entities={}, indexes={}))


@pytest.mark.parametrize("name", ["a" * 50, "_s", "9-.x"])
def test_a_valid_table_name(name: str) -> None:
    HERE.connect(Schema(name=name, entities={}, indexes={})).close()


def test_an_invalid_index_name() -> None:
    for name in ("e" * 46, "by_é"):
        schema = Schema(name="shop", entities={}, indexes={name: IndexSchema(name, ())})
        with pytest.raises(SchemaError, match=r"shorter name with index="):
            HERE.connect(schema)
    HERE.connect(Schema(name="shop", entities={}, indexes={"e" * 45: IndexSchema("e" * 45, ())})).close()


def test_the_name_of_a_table_with_transactions_is_refused_for_one_without() -> None:
    """It would find that table, overlook its locks and destroy them."""
    schema = Schema(name="shop.tx", entities={}, indexes={})
    with pytest.raises(SchemaError, match=r"table 'shop\.tx': .*say Table\('shop', transactions=True\), or choose"):
        HERE.connect(schema)
    HERE.connect(evolve(schema, transactions=True)).close()


def test_a_reserved_attribute_name_is_refused() -> None:
    table = Table("shop")

    class Order(Entity, table=table):
        order_id: str
        note: Annotated[str, Stored("~r")] = ""

        primary = PrimaryKey("ORDER#{order_id}")

    with pytest.raises(SchemaError, match=r"^Order\.note: the stored name '~r' is reserved on Bigtable; .*Stored\("):
        HERE.connect(table.compile())


def tenants(join: Literal["#", "##"], second: str = "TENANT#{tenant}#USER#{user}") -> Schema:
    table = Table("shop", row_key_join=join)

    class Tenant(Entity, table=table):
        tenant: str
        primary = PrimaryKey("TENANT#{tenant}", "PROFILE")

    class User(Entity, table=table):
        tenant: str
        user: str
        number: Annotated[int, Field(ge=0, lt=10)] = 0
        primary = PrimaryKey(second, "USER")

    return table.compile()


def test_partitions_that_begin_alike_are_refused_with_both_fixes() -> None:
    with pytest.raises(SchemaError) as raised:
        HERE.connect(tenants("#"))
    for words in (
        "Tenant",
        "User",
        '"TENANT#{tenant}"',
        '"TENANT#{tenant}#USER#{user}"',
        'row_key_join="##"',
        "USER#TENANT",
    ):
        assert words in str(raised.value)


@pytest.mark.parametrize(
    ("join", "second"),
    [("##", "TENANT#{tenant}#USER#{user}"), ("#", "USER#{tenant}#OF#{user}"), ("#", "TENANT#{user}")],
    ids=["other join", "own literal", "as many components"],
)
def test_partitions_that_are_distinct(join: Literal["#", "##"], second: str) -> None:
    HERE.connect(tenants(join, second)).close()


@pytest.mark.parametrize(("project", "instance"), [("", "i"), ("p", ""), ("projects/p", "i"), ("p", "p/i")])
def test_project_and_instance_are_ids(project: str, instance: str) -> None:
    with pytest.raises(BadValue, match="pass only the id"):
        Bigtable(project, instance)


def test_an_emulator_address_must_not_be_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema(name="shop", entities={}, indexes={})
    with pytest.raises(BadValue, match="'http://localhost:8086': pass only host and port, as in localhost:8086"):
        Bigtable("p", "i", endpoint="http://localhost:8086").connect(schema)
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", "https://localhost:8086/")
    with pytest.raises(BadValue, match="BIGTABLE_EMULATOR_HOST"):
        Bigtable("p", "i").connect(schema)


def test_credentials_are_not_sent_to_an_emulator() -> None:
    with pytest.raises(BadValue, match="not encrypted"):
        Bigtable("p", "i", endpoint="localhost:8086", credentials=CREDENTIALS())


def test_credentials_are_not_shown() -> None:
    assert "credentials" not in repr(Bigtable("p", "i", credentials=CREDENTIALS()))


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # google-auth leaves a file open when it looks for credentials
def test_missing_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BIGTABLE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/credentials.json")
    connection = Bigtable("p", "i").connect(Schema(name="shop", entities={}, indexes={}))
    with pytest.raises(BackendError, match="gcloud auth application-default login"):
        perform(connection, Get(Key("a", "b")))


def test_nothing_of_google_is_imported_before_connect() -> None:
    code = (
        "import sys; from odm.backends.bigtable import Bigtable; Bigtable('p', 'i'); "
        "print([name for name in sys.modules if name.split('.')[0] in ('google', 'grpc', 'proto')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_without_googles_client_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['grpc'] = None\n"
        "from odm.backends.bigtable import Bigtable; from odm.schema.model import Schema\n"
        "from odm.errors import Unsupported\n"
        "try: Bigtable('p', 'i').connect(Schema(name='shop', entities={}, indexes={}))\n"
        "except Unsupported as error: print(error)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "single-table-odm[bigtable]" in shown
