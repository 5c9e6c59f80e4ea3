"""Entities as FastAPI request bodies and response models, read from and written to an `AsyncStore`."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, computed_field

from odm import AsyncStore, Entity, ItemExists, ItemNotFound, Page, PrimaryKey, SchemaError, Store, Table, collection
from odm.backends.local import Memory
from odm.results import Partial
from tests.shop import Item, Order, shop


def application(db: AsyncStore) -> FastAPI:
    app = FastAPI()

    @app.post("/items", status_code=201)
    async def create(item: Item) -> Item:
        try:
            return await db.insert(item)
        except ItemExists as error:
            raise HTTPException(409, str(error)) from error

    @app.get("/items/{customer_id}/{order_id}/{number}", response_model=Item)
    async def read(customer_id: str, order_id: str, number: int) -> Item:
        try:
            return await db.one(Item, customer_id=customer_id, order_id=order_id, number=number)
        except ItemNotFound as error:
            raise HTTPException(404, str(error)) from error

    @app.get("/items/{customer_id}")
    async def page(customer_id: str, after: str | None = None) -> Page[Item]:
        return await db.page(Item.primary(customer_id=customer_id), size=2, after=after)

    @app.get("/all/{customer_id}", response_model=Page[Order | Item])
    async def everything(customer_id: str) -> object:
        return await db.page(collection(Item.primary(customer_id=customer_id)))

    return app


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    db = AsyncStore(shop, Memory())
    await db.create()
    transport = httpx.ASGITransport(application(db))
    await db.put(Order(customer_id="c2", order_id="o1"))
    async with db, httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        yield client


ITEM = {"customer_id": "c1", "order_id": "o1", "number": 5, "sku": "cup"}


async def test_an_entity_is_a_request_body_and_a_response(client: httpx.AsyncClient) -> None:
    answer = await client.post("/items", json=ITEM)
    assert (answer.status_code, answer.json()) == (201, ITEM)
    assert (await client.get("/items/c1/o1/5")).json() == ITEM


async def test_errors_of_the_body_and_of_the_store(client: httpx.AsyncClient) -> None:
    assert (await client.post("/items", json={**ITEM, "number": 0})).status_code == 422
    await client.post("/items", json=ITEM)
    assert (await client.post("/items", json=ITEM)).status_code == 409
    assert (await client.get("/items/c1/o1/6")).status_code == 404


async def test_a_page_is_a_response_model_with_its_cursor(client: httpx.AsyncClient) -> None:
    items = [{**ITEM, "number": number} for number in (1, 2, 3)]
    for item in items:
        await client.post("/items", json=item)
    first = (await client.get("/items/c1")).json()
    assert first == {"items": items[:2], "cursor": first["cursor"], "previous": None}
    last = (await client.get("/items/c1", params={"after": first["cursor"]})).json()
    assert (last["items"], last["cursor"]) == (items[2:], None)
    assert (await client.get("/items/c1", params={"after": last["previous"]})).json() == first


async def test_a_page_of_a_collection_has_the_fields_of_each_entity(client: httpx.AsyncClient) -> None:
    await client.post("/items", json={**ITEM, "customer_id": "c2"})
    order, item = (await client.get("/all/c2")).json()["items"]
    assert (order["status"], item["sku"]) == ("open", "cup")


async def test_the_api_description_shows_the_fields(client: httpx.AsyncClient) -> None:
    schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    assert list(schemas["Item"]["properties"]) == ["customer_id", "order_id", "number", "sku"]
    page = schemas["Page_Item_"]
    assert page["properties"]["items"]["items"] == {"$ref": "#/components/schemas/Item"}
    assert list(page["properties"]) == ["items", "cursor", "previous"]
    assert page["description"] == "One page of results."
    assert "the next page" in page["properties"]["cursor"]["description"]


def test_a_page_is_written_as_json_and_read_from_it() -> None:
    pages, page = TypeAdapter(Page[Item]), Page([Item.model_validate(ITEM)], "text")
    assert pages.validate_json(pages.dump_json(page)) == page
    assert pages.validate_python(page).items[0] is page.items[0], "an item that odm validated is not validated again"
    with pytest.raises(ValidationError, match=r"items.0.number"):
        pages.validate_python({"items": [{**ITEM, "number": 0}]})
    both = TypeAdapter(Page[Order | Item])
    mixed = Page[Order | Item]([Order(customer_id="c", order_id="o"), Item.model_validate(ITEM)])
    assert both.validate_json(both.dump_json(mixed)) == mixed


class Shown(BaseModel):
    """What an API shows of an item."""

    model_config = ConfigDict(from_attributes=True)
    sku: str

    @computed_field
    def label(self) -> str:
        return self.sku.upper()


class Priced(BaseModel):
    sku: str
    price: int


async def test_a_page_of_another_model_has_its_fields() -> None:
    page = Page([Item.model_validate(ITEM)], "text")
    shown = TypeAdapter(Page[Shown]).validate_python(page)
    assert (shown.items, shown.cursor) == ([Shown(sku="cup")], "text")
    with pytest.raises(ValidationError, match=r"items\.0\.price"):
        TypeAdapter(Page[Priced]).validate_python(page, from_attributes=True)
    with pytest.raises(ValidationError, match=r"items\.0"):
        TypeAdapter(Page[Order]).validate_python(page)
    app = FastAPI()

    @app.get("/", response_model=Page[Shown])
    async def read() -> object:
        return page

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
        answer = await client.get("/")
    assert answer.json() == {"items": [{"sku": "cup", "label": "CUP"}], "cursor": "text", "previous": None}


scans = Table("scans")


class Scan(Entity, table=scans):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    scan_id: str
    data: bytes

    primary = PrimaryKey("SCAN#{scan_id}")


def test_bytes_of_an_entity_as_base64() -> None:
    with Store(scans, Memory()) as db:
        db.create()
        scan = db.put(Scan(scan_id="1", data=b"\xff\xfe"))
        assert Scan.model_validate_json(scan.model_dump_json()) == db.one(Scan, scan_id="1") == scan


def test_a_page_of_some_fields_is_no_response_model() -> None:
    with pytest.raises(SchemaError, match=r"Partial\[tests.shop.Item\].*a model of your own"):
        TypeAdapter(Page[Partial[Item]])
