"""The published designs: their tables, items and access patterns, each with the call of odm that answers it."""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from attrs import frozen

from odm import Store, Table, between, collection
from tests.published import models as m

FOLDER = Path(__file__).parents[3] / "shared" / "published"

FIRST = datetime(2023, 4, 1, 12, 0, 0, 1000, UTC)

Answer: TypeAlias = Callable[[Store], Iterable[Any]]

ANSWERS: Mapping[str, Mapping[str, Answer]] = {
    "ChatSystemSchema": {
        "getAllComments": lambda db: db.query(m.Message.by_room(room_id="Music")),
        "getLatestComments": lambda db: db.query(m.Message.by_room(room_id="Music").reverse().limit(10)),
        "getFromLatestToPosition": lambda db: db.query(
            m.Message.by_room(room_id="Music").where(m.Message.created_at > FIRST)
        ),
        "getFromPositionToPosition": lambda db: db.query(
            m.Message.by_room(room_id="Music").where(between(m.Message.created_at, FIRST, FIRST.replace(second=50)))
        ),
        "room of deleteChatRoom": lambda db: [db.one(m.Room.primary(name="Art"))],
    },
    "ComplaintManagementSchema": {
        "metadata": lambda db: [db.one(m.Complaint.primary(complaint_id="Complaint123"))],
        "communications": lambda db: db.query(m.Communication.primary(complaint="Complaint123")),
        "of a customer": lambda db: db.query(m.Complaint.of_customer(customer_id="custXYZ")),
        "escalated to agent": lambda db: db.query(m.Complaint.escalated(escalated_to="AgentB")),
        "agent's history": lambda db: db.query(m.Communication.of_agent(agent="AgentA")),
        "by severity and state": lambda db: db.scan(
            m.Complaint, m.Complaint.severity == "P1", m.Complaint.current_state == "assigned"
        ),
        "track state changes": lambda db: db.query(
            m.Communication.primary(complaint="Complaint123").where(m.Communication.state == "resolved")
        ),
    },
    "SocialNetworkSchema": {
        "getFollowerList": lambda db: db.query(m.Follower.primary(user="12345")),
        "getFollowingList": lambda db: db.query(m.Following.primary(user="12345")),
        "getPostList": lambda db: db.query(m.Post.primary(user="12345")),
        "getUserLikes": lambda db: db.query(m.Like.primary(post="12345")),
        "getTimeline": lambda db: db.query(m.Shown.primary(user="12345")),
        "info of a user": lambda db: [db.one(m.Info.primary(user="12345"))],
        "likes of a post": lambda db: [db.one(m.LikeCount.primary(post="12345"))],
    },
    "AnOnlineShop_14": {
        "customer": lambda db: [db.one(m.Customer.primary(id="12345"))],
        "product": lambda db: [db.one(m.Product.primary(id="12345"))],
        "warehouse": lambda db: [db.one(m.Warehouse.primary(id="12345"))],
        "inventory of a product": lambda db: db.query(m.WarehouseItem.primary(product="99887")),
        "all of an order": lambda db: db.query(collection(m.Order.primary(order="12345"))),
        "products of an order": lambda db: db.query(m.OrderItem.primary(order="12345")),
        "invoice of an order": lambda db: db.query(m.Invoice.primary(order="12345")),
        "shipments of an order": lambda db: db.query(m.Shipment.primary(order="12345")),
        "orders of a product": lambda db: db.query(
            m.OrderItem.of_product(product="99887").where(
                between(m.OrderItem.date, "2020-06-21T00:00:00", "2020-06-21T23:59:00")
            )
        ),
        "invoice by id": lambda db: db.query(m.Invoice.by_id(id="55443")),
        "shipment detail": lambda db: db.query(collection(m.Shipment.by_id(id="98765"))),
        "shipments of a warehouse": lambda db: db.query(m.Shipment.of_warehouse(warehouse="12345")),
        "inventory of a warehouse": lambda db: db.query(m.WarehouseItem.of_warehouse(listed="12345")),
        "invoices of a customer in a range": lambda db: db.query(
            m.Invoice.of_customer(customer="12345").where(between(m.Invoice.date, "2020-06-01", "2020-06-30"))
        ),
        "products of a customer in a range": lambda db: db.query(
            m.OrderItem.of_customer(customer="12345").where(between(m.OrderItem.date, "2020-06-01", "2020-06-30"))
        ),
        "products and invoices of a customer in a range": lambda db: db.query(
            collection(
                m.OrderItem.of_customer(customer="12345").where(between(m.OrderItem.date, "2020-06-01", "2020-06-30"))
            )
        ),
    },
    "DeviceStateLog_7": {
        "logs of a device, by filter": lambda db: db.query(
            m.DeviceState.primary(device="d#12345", state="WARNING1").reverse()
        ),
        "logs of a state": lambda db: db.query(m.DeviceState.primary(device="d#12345", state="WARNING1").reverse()),
        "logs of an operator": lambda db: db.query(
            m.DeviceState.of_operator(operator="Liz").where(between(m.DeviceState.date, "2020-04-20", "2020-04-25"))
        ),
        "escalated to an operator": lambda db: db.query(m.DeviceState.escalated(escalated_to="Sara")),
        "of a state": lambda db: db.query(m.DeviceState.escalated(escalated_to="Sara", state="WARNING4")),
        "of a state and date": lambda db: db.query(
            m.DeviceState.escalated(escalated_to="Sara", state="WARNING4", date="2020-04-27T16:15:00")
        ),
    },
}

MORE: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "SocialNetworkSchema": (
        {"name": "info of a user", "key": ["u#12345", '"info"']},
        {"name": "likes of a post", "key": ["p#12345#likecount", '"count"']},
    ),
    "DeviceStateLog_7": (
        {"name": "escalated to an operator", "pk": "Sara", "index": "GSI2"},
        {"name": "of a state", "pk": "Sara", "sk": ["begins", "WARNING4#"], "index": "GSI2"},
        {"name": "of a state and date", "pk": "Sara", "sk": ["=", "WARNING4#2020-04-27T16:15:00"], "index": "GSI2"},
    ),
}
"""The access patterns of the README that are not among those of the file."""

TABLES: Mapping[str, Table] = {
    "ChatSystemSchema": m.chat,
    "ComplaintManagementSchema": m.complaints,
    "SocialNetworkSchema": m.network,
    "AnOnlineShop_14": m.shop,
    "DeviceStateLog_7": m.devices,
}


@frozen
class Design:
    """One published design."""

    name: str
    model: Mapping[str, Any]
    patterns: tuple[Mapping[str, Any], ...]

    @property
    def table(self) -> Table:
        """The models of odm."""
        return TABLES[self.name]

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """The key attributes of the table, under "", and of its indexes."""
        indexes = {index["IndexName"]: index for index in self.model.get("GlobalSecondaryIndexes", ())}
        parts = {name: part["KeyAttributes"].values() for name, part in {"": self.model, **indexes}.items()}
        return {name: tuple(key["AttributeName"] for key in part) for name, part in parts.items()}

    def create(self, client: Any) -> None:
        """Create the table with its items, without odm."""
        keys = self.keys
        schema = {name: _key_schema(names) for name, names in keys.items()}
        indexes = [
            {"IndexName": name, "KeySchema": schema[name], "Projection": {"ProjectionType": "ALL"}}
            for name in keys
            if name
        ]
        names = dict.fromkeys(name for pair in keys.values() for name in pair)
        client.create_table(
            TableName=self.model["TableName"],
            KeySchema=schema[""],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
            BillingMode="PAY_PER_REQUEST",
            **({"GlobalSecondaryIndexes": indexes} if indexes else {}),
        )
        for item in self.items:
            client.put_item(TableName=self.model["TableName"], Item=item)

    @property
    def items(self) -> list[Any]:
        """The items, with types for the maps that were written without."""
        found = [*self.model.get("TableData", ())]
        for facet in self.model.get("TableFacets", ()):
            found += facet.get("TableData", ())
        return [{name: _typed(value) for name, value in item.items()} for item in found]

    def ask(self, client: Any, pattern: Mapping[str, Any]) -> list[Any]:
        """The answer to an access pattern, without odm."""
        table, names = self.model["TableName"], self.keys[pattern.get("index", "")]
        if "key" in pattern:
            key = {name: {"S": value} for name, value in zip(names, pattern["key"], strict=True)}
            return [client.get_item(TableName=table, Key=key)["Item"]]
        arguments: dict[str, Any] = {"TableName": table}
        placeholders: dict[str, str] = {}
        values: dict[str, Any] = {}
        if "filter" in pattern:
            arguments["FilterExpression"], placeholders, values = pattern["filter"]
        if "pk" not in pattern:
            names_and_values = {"ExpressionAttributeNames": placeholders, "ExpressionAttributeValues": values}
            return list(client.scan(**arguments, **names_and_values)["Items"])
        placeholders, values = {**placeholders, "#p": names[0]}, {**values, ":p": {"S": pattern["pk"]}}
        condition = "#p = :p"
        if "sk" in pattern:
            operator, *given = pattern["sk"]
            placeholders["#s"] = names[1]
            values |= {f":s{at}": {"S": text} for at, text in enumerate(given)}
            texts = {"begins": "begins_with(#s, :s0)", "between": "#s BETWEEN :s0 AND :s1"}
            condition += f" AND {texts.get(operator, f'#s {operator} :s0')}"
        arguments |= {"IndexName": pattern["index"]} if "index" in pattern else {}
        arguments |= {"Limit": pattern["limit"]} if "limit" in pattern else {}
        return list(
            client.query(
                **arguments,
                KeyConditionExpression=condition,
                ExpressionAttributeNames=placeholders,
                ExpressionAttributeValues=values,
                ScanIndexForward=not pattern.get("reverse"),
            )["Items"]
        )


def _key_schema(names: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=True)]


def _typed(value: Any) -> Any:
    """An attribute, in which the content of a map may be plain JSON."""
    match value:
        case {"M": content}:
            return {"M": {name: _typed(part) for name, part in content.items()}}
        case {"L": content}:
            return {"L": [_typed(part) for part in content]}
        case dict() if len(value) == 1 and next(iter(value)) in ("S", "N", "BOOL", "NULL", "SS", "NS", "BS", "B"):
            return value
        case dict():
            return {"M": {name: _typed(part) for name, part in value.items()}}
        case list():
            return {"L": [_typed(part) for part in value]}
        case bool():
            return {"BOOL": value}
        case int() | float():
            return {"N": str(value)}
    return {"S": value}


def read_designs() -> list[Design]:
    """The published designs; none where their folder is missing."""
    if not FOLDER.is_dir():
        return []
    patterns = json.loads((FOLDER / "patterns.json").read_text())
    models = {name: json.loads((FOLDER / f"{name}.json").read_text())["DataModel"][0] for name in TABLES}
    return [Design(name, model, (*patterns[name], *MORE.get(name, ()))) for name, model in models.items()]
