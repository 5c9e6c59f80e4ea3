"""No conditional write is applied to an item of which no entity can be read, because another program wrote a form.

``price != 100`` holds in the store for the price "100". An entity would be refused there, so the write is, too.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import boto3
import pytest

from odm import (
    Cell,
    ConditionFailed,
    Entity,
    ItemInvalid,
    PrimaryKey,
    Store,
    Table,
    TransactionFailed,
    exists,
    missing,
    not_,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory


def declared(name: str, type_: Any, **default: Any) -> Any:
    """A table that another program writes, too, with prices of this type."""
    table = Table(name, row_style="verbatim")
    body = {
        "__annotations__": {
            "id": str,
            "note": Annotated[str, Cell("d:note", "text")],
            "price": Annotated[type_, Cell("d:price", "text")],
            "z": Annotated[str, Cell("d:z", "text")],
        },
        "note": "",
        "z": "",
        "primary": PrimaryKey("P/{id}"),
    }
    return type("Product", (Entity,), body | default, table=table)


@pytest.fixture(params=["memory", "file", "dynamodb", "bigtable"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    match request.param:
        case "memory":
            return Memory()
        case "file":
            return LocalFile(tmp_path / "products.db")
        case "dynamodb":
            endpoint = request.getfixturevalue("dynamodb_local")
            session = boto3.Session(aws_access_key_id=uuid4().hex[:20], aws_secret_access_key="x", region_name="eu-1")
            return DynamoDB(session, endpoint_url=endpoint)
    return Bigtable("project", "instance", endpoint=request.getfixturevalue("bigtable_emulator"))


Products = tuple[Store, Any, Callable[[], Any]]


@pytest.fixture
def products(backend: Any) -> Iterator[Products]:
    """A store with an item whose price is text, the class whose prices are numbers, and what reads the item."""
    name = f"products-{uuid4().hex[:8]}"
    theirs = declared(name, str)
    ours = declared(name, int | None, price=None)
    with Store(theirs.__odm_table__, backend) as other, Store(ours.__odm_table__, backend) as db:
        other.create()
        other.put(theirs(id="1", price="1e2", note="theirs", z="z"))
        yield db, ours, lambda: other.get(theirs, id="1")


CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "!=": lambda product: product.price != 7,
    "!= of the same number": lambda product: product.price != 100,
    "!= None": lambda product: product.price != None,  # noqa: E711
    "exists": lambda product: exists(product.price),
    "not": lambda product: not_(product.price == 7),
    "not missing": lambda product: not_(missing(product.price)),
    "or": lambda product: (product.price == 7) | (product.note == "theirs"),
    "and": lambda product: (product.price != 7) & (product.note == "theirs"),
}


def in_transaction(db: Store, of: Any, id: str, when: Any) -> None:
    with db.transaction() as tx:
        tx.update(of.primary(id=id), set_(of.note, "changed"), when=when)


WRITES: dict[str, Callable[[Store, Any, str, Any], object]] = {
    "update": lambda db, of, id, when: db.update(of.primary(id=id), set_(of.note, "changed"), when=when),
    "put": lambda db, of, id, when: db.put(of(id=id, price=100, note="changed", z="z"), when=when),
    "transaction": in_transaction,
    "delete": lambda db, of, id, when: db.delete(of.primary(id=id), when=when),
}


@pytest.mark.parametrize("write", WRITES)
def test_no_write_is_applied_to_an_item_that_cannot_be_read(products: Products, write: str) -> None:
    db, ours, read = products
    before = read()
    for condition in CONDITIONS.values():
        with pytest.raises((ItemInvalid, ConditionFailed, TransactionFailed)):
            WRITES[write](db, ours, "1", condition(ours))
        assert read() == before


@pytest.mark.parametrize("write", WRITES)
def test_a_write_is_applied_to_an_item_for_which_its_condition_holds(products: Products, write: str) -> None:
    db, ours, _ = products
    for condition in CONDITIONS.values():
        db.put(ours(id="2", price=8, note="theirs", z="z"))
        WRITES[write](db, ours, "2", condition(ours))
        stored = db.get(ours, id="2")
        assert stored is None if write == "delete" else stored is not None and stored.note == "changed"
    if write in ("put", "delete"):  # of an item that is not there
        db.delete(ours, id="2")
        WRITES[write](db, ours, "2", ours.price != 7)
        assert (db.get(ours, id="2") is None) is (write == "delete")
