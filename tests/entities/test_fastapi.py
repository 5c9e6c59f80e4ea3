"""Entities as FastAPI request bodies and response models, read from and written to an `AsyncStore`."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from pydantic import Field

from odm import AsyncStore, Entity, ItemExists, ItemNotFound, Page, PrimaryKey, Table, collection
from odm.backends.local import Memory

table = Table("fastapi")


class Order(Entity, table=table):
    customer_id: str
    order_id: str
    total: int = Field(default=0, ge=0)

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")


def application(db: AsyncStore) -> FastAPI:
    app = FastAPI()

    @app.post("/orders", status_code=201)
    async def create(order: Order) -> Order:
        try:
            return await db.insert(order)
        except ItemExists as error:
            raise HTTPException(409, str(error)) from error

    @app.get("/orders/{customer_id}/{order_id}", response_model=Order)
    async def read(customer_id: str, order_id: str) -> Order:
        try:
            return await db.one(Order, customer_id=customer_id, order_id=order_id)
        except ItemNotFound as error:
            raise HTTPException(404, str(error)) from error

    @app.get("/orders/{customer_id}", response_model=list[Order])
    async def page(customer_id: str) -> object:
        found: Page[Order] = await db.page(Order.primary(customer_id=customer_id), size=10)
        assert await db.count(collection(Order.primary(customer_id=customer_id))) == len(found.items)
        return found.items

    return app


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    db = AsyncStore(table, Memory())
    await db.create()
    transport = httpx.ASGITransport(application(db))
    async with db, httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        yield client


ORDER = {"customer_id": "c1", "order_id": "o1", "total": 5}


async def test_an_entity_is_a_request_body_and_a_response(client: httpx.AsyncClient) -> None:
    answer = await client.post("/orders", json=ORDER)
    assert (answer.status_code, answer.json()) == (201, ORDER)
    assert (await client.get("/orders/c1/o1")).json() == ORDER
    assert (await client.get("/orders/c1")).json() == [ORDER]


async def test_errors_of_the_body_and_of_the_store(client: httpx.AsyncClient) -> None:
    assert (await client.post("/orders", json={**ORDER, "total": -1})).status_code == 422
    await client.post("/orders", json=ORDER)
    assert (await client.post("/orders", json=ORDER)).status_code == 409
    assert (await client.get("/orders/c1/o2")).status_code == 404


async def test_the_api_description_shows_the_fields(client: httpx.AsyncClient) -> None:
    schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    assert list(schemas["Order"]["properties"]) == ["customer_id", "order_id", "total"]
