"""Entities as FastAPI request bodies and response models, read from and written to an `AsyncStore`."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, HTTPException

from odm import AsyncStore, ItemExists, ItemNotFound, Page, collection
from odm.backends.local import Memory
from tests.shop import Item, shop


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

    @app.get("/items/{customer_id}", response_model=list[Item])
    async def page(customer_id: str) -> object:
        found: Page[Item] = await db.page(Item.primary(customer_id=customer_id), size=10)
        assert await db.count(collection(Item.primary(customer_id=customer_id))) == len(found.items)
        return found.items

    return app


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    db = AsyncStore(shop, Memory())
    await db.create()
    transport = httpx.ASGITransport(application(db))
    async with db, httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        yield client


ITEM = {"customer_id": "c1", "order_id": "o1", "number": 5, "sku": "cup"}


async def test_an_entity_is_a_request_body_and_a_response(client: httpx.AsyncClient) -> None:
    answer = await client.post("/items", json=ITEM)
    assert (answer.status_code, answer.json()) == (201, ITEM)
    assert (await client.get("/items/c1/o1/5")).json() == ITEM
    assert (await client.get("/items/c1")).json() == [ITEM]


async def test_errors_of_the_body_and_of_the_store(client: httpx.AsyncClient) -> None:
    assert (await client.post("/items", json={**ITEM, "number": 0})).status_code == 422
    await client.post("/items", json=ITEM)
    assert (await client.post("/items", json=ITEM)).status_code == 409
    assert (await client.get("/items/c1/o1/6")).status_code == 404


async def test_the_api_description_shows_the_fields(client: httpx.AsyncClient) -> None:
    schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    assert list(schemas["Item"]["properties"]) == ["customer_id", "order_id", "number", "sku"]
