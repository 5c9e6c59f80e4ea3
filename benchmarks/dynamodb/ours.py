"""odm as a user has it: a store on `DynamoDB`, sync and async."""

from typing import Any

import boto3

from benchmarks.dynamodb.answers import Answers, Canned, Item, Wire
from benchmarks.dynamodb.contender import Contender, Looped
from benchmarks.dynamodb.pages import CUSTOMER, Page
from odm import AsyncStore, Store, collection
from odm.backends.dynamodb import DynamoDB


def session() -> boto3.Session:
    """A session with credentials that need not be looked for."""
    return boto3.Session("benchmark", "benchmark", region_name="us-east-1")


def backend_on(wire: Wire) -> DynamoDB:
    """The backend, answered by a wire."""
    reached = session()
    wire.register(reached.events)
    return DynamoDB(reached, endpoint_url=wire.endpoint_url)


def stored(page: Page) -> list[Item]:
    """The items of a page as we store them."""
    wire = Canned(Answers())
    store = Store(page.table, backend_on(wire))
    for tag, values in page.rows:
        store.put(page.entities[tag](**values))
    store.close()
    return wire.answers.items


class _Ours(Contender):
    def model(self, tag: str, values: dict[str, Any]) -> Any:
        return self.page.entities[tag](**values)

    @property
    def what(self) -> Any:
        """The query of the page."""
        entity, *others = self.page.entities.values()
        query = entity.primary(customer_id=CUSTOMER)
        return collection(query) if others else query


class Odm(_Ours):
    """The sync store."""

    def connect(self) -> None:
        self.store: Any = Store(self.page.table, backend_on(self.wire))
        [self.entity, *_] = self.page.entities.values()

    def query(self) -> list[Any]:
        return list(self.store.query(self.what))

    def get(self) -> Any:
        return self.store.get(self.entity, customer_id=CUSTOMER, order_id="o000000000")

    def put(self, model: Any) -> None:
        self.store.put(model)

    def close(self) -> None:
        self.store.close()


class AsyncOdm(Looped, _Ours):
    """The async store."""

    def connect(self) -> None:
        self.store: Any = AsyncStore(self.page.table, backend_on(self.wire))
        [self.entity, *_] = self.page.entities.values()

    async def query(self) -> list[Any]:
        return [found async for found in self.store.query(self.what)]

    async def get(self) -> Any:
        return await self.store.get(self.entity, customer_id=CUSTOMER, order_id="o000000000")

    async def put(self, model: Any) -> None:
        await self.store.put(model)

    async def aclose(self) -> None:
        await self.store.aclose()
