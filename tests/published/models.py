"""Models of five published designs, exactly as their tables are."""

from datetime import datetime
from typing import Annotated, Any

from odm import AccessPattern, Entity, PrimaryKey, Stored, Table

MILLISECONDS = "%Y-%m-%dT%H:%M:%S.%3fZ"

chat = Table(
    "Chat",
    keys=("PK", "SK"),
    index_keys={"RoomID_Comment_IDX": ("RoomID", "CreatedAt")},
    key_style="verbatim",
    tag=None,
)


class Message(Entity, table=chat):
    user: str
    at: Annotated[datetime, Stored(format=MILLISECONDS)]
    room_id: Annotated[str, Stored("RoomID")]
    created_at: Annotated[datetime, Stored("CreatedAt", format=MILLISECONDS)]
    comment: Annotated[str, Stored("Comment")]

    primary = PrimaryKey("User:{user}", "{at}")
    by_room = AccessPattern("{room_id}", "{created_at}", index="RoomID_Comment_IDX")


class Room(Entity, table=chat):
    name: str
    created_by: Annotated[str, Stored("CreatedBy")]

    primary = PrimaryKey("Room:{name}", "meta")


complaints = Table(
    "Complaint_management_system",
    keys=("PK", "SK"),
    index_keys={
        "Customer_Complaint_GSI": ("customer_id", "complaint_id"),
        "Escalations_GSI": ("escalated_to", "escalation_time"),
        "Agents_Comments_GSI": ("agentID", "comm_date"),
    },
    key_style="verbatim",
    tag=None,
)


class Complaint(Entity, table=complaints):
    complaint_id: Annotated[str, Stored("complaint_id")]
    customer_id: Annotated[str, Stored("customer_id")]
    current_state: Annotated[str, Stored("current_state")]
    creation_time: Annotated[str, Stored("creation_time")]
    severity: Annotated[str, Stored("severity")]
    description: Annotated[str, Stored("complaint_description")]
    escalated_to: Annotated[str | None, Stored("escalated_to")] = None
    escalation_time: Annotated[str | None, Stored("escalation_time")] = None

    primary = PrimaryKey("{complaint_id}", "metadata")
    of_customer = AccessPattern("{customer_id}", "{complaint_id}", index="Customer_Complaint_GSI")
    escalated = AccessPattern("{escalated_to}", "{escalation_time}", index="Escalations_GSI")


class Communication(Entity, table=complaints):
    complaint: str
    comm_id: Annotated[str, Stored("comm_id")]
    comm_date: Annotated[str, Stored("comm_date")]
    state: Annotated[str, Stored("complaint_state")]
    text: Annotated[str, Stored("comm_text")]
    attachments: Annotated[set[str], Stored("attachments")] = set()
    agent: Annotated[str | None, Stored("agentID")] = None

    primary = PrimaryKey("{complaint}", "comm#{comm_date}#{comm_id}")
    of_agent = AccessPattern("{agent}", "{comm_date}", index="Agents_Comments_GSI")


network = Table("SNS", keys=("PK", "SK"), key_style="verbatim", tag=None)


class Info(Entity, table=network):
    user: str
    name: Annotated[str, Stored("name")]
    content: Annotated[str, Stored("content")]
    image: Annotated[str, Stored("imageUrl")]
    etc: Annotated[str, Stored("etc")]

    primary = PrimaryKey("u#{user}", '"info"')


class Counts(Entity, table=network):
    user: str
    followers: Annotated[int, Stored("follower#")]
    following: Annotated[int, Stored("following#")]
    posts: Annotated[int, Stored("post#")]

    primary = PrimaryKey("u#{user}", '"count"')


class Follower(Entity, table=network):
    user: str
    follower: str

    primary = PrimaryKey("u#{user}#follower", "u#{follower}")


class Following(Entity, table=network):
    user: str
    following: str

    primary = PrimaryKey("u#{user}#following", "u#{following}")


class Post(Entity, table=network):
    user: str
    post: str
    content: Annotated[str, Stored("content")]
    image: Annotated[str, Stored("imageUrl")]
    timestamp: Annotated[str, Stored("timestamp")]

    primary = PrimaryKey("u#{user}#post", "p#{post}")


class Like(Entity, table=network):
    post: str
    user: str

    primary = PrimaryKey("p#{post}#likelist", "u#{user}")


class LikeCount(Entity, table=network):
    post: str
    etc: Annotated[str, Stored("etc")]

    primary = PrimaryKey("p#{post}#likecount", '"count"')


class Shown(Entity, table=network):
    user: str
    post: str
    author: str
    ttl: Annotated[int, Stored("ttl")]

    primary = PrimaryKey("u#{user}#timeline", "p#{post}#u#{author}")


shop = Table(
    "OnlineShop",
    keys=("PK", "SK"),
    index_keys={"GSI1": ("GSI1-PK", "GSI1-SK"), "GSI2": ("GSI2-PK", "GSI2-SK")},
    key_style="verbatim",
    tag="EntityType",
)


class Customer(Entity, table=shop, tag="customer"):
    id: str
    email: Annotated[str, Stored("Email")]
    name: Annotated[str, Stored("Name")]

    primary = PrimaryKey("c#{id}", "c#{id}")


class Product(Entity, table=shop, tag="product"):
    id: str
    detail: Annotated[dict[str, str], Stored("Detail")]
    price: Annotated[str, Stored("Price")]

    primary = PrimaryKey("p#{id}", "p#{id}")


class Warehouse(Entity, table=shop, tag="warehouse"):
    id: str
    address: Annotated[dict[str, str], Stored("Address")]

    primary = PrimaryKey("w#{id}", "w#{id}")


class WarehouseItem(Entity, table=shop, tag="warehouseItem"):
    product: str
    warehouse: str
    listed: str | None = None  # one item of the design is not in the index
    quantity: Annotated[str, Stored("Quantity")]

    primary = PrimaryKey("p#{product}", "w#{warehouse}")
    of_warehouse = AccessPattern("w#{listed}", "p#{product}", index="GSI2")


class OrderItem(Entity, table=shop, tag="orderItem"):
    order: str
    product: str
    customer: str
    date: Annotated[str, Stored("GSI1-SK")]
    price: Annotated[str, Stored("Price")]
    quantity: Annotated[str, Stored("Quantity")]

    primary = PrimaryKey("o#{order}", "p#{product}")
    of_product = AccessPattern("p#{product}", "{date}", index="GSI1")
    of_customer = AccessPattern("c#{customer}", "{date}", index="GSI2")


class Order(Entity, table=shop, tag="order"):
    order: str
    customer: str
    date: Annotated[str, Stored("Date")]

    primary = PrimaryKey("o#{order}", "c#{customer}")


class Invoice(Entity, table=shop, tag="invoice"):
    order: str
    id: str
    customer: str
    date: Annotated[str, Stored("Date")]
    detail: Annotated[dict[str, Any], Stored("Detail")]
    amount: Annotated[str, Stored("Amount")]

    primary = PrimaryKey("o#{order}", "i#{id}")
    by_id = AccessPattern("i#{id}", "i#{id}", index="GSI1")
    of_customer = AccessPattern("c#{customer}", "{date}", index="GSI2")


class Shipment(Entity, table=shop, tag="shipment"):
    order: str
    id: str
    warehouse: str
    address: Annotated[dict[str, str], Stored("Address")]
    type: Annotated[str, Stored("Type")]
    date: Annotated[str, Stored("Date")]

    primary = PrimaryKey("o#{order}", "sh#{id}")
    by_id = AccessPattern("sh#{id}", "sh#{id}", index="GSI1")
    of_warehouse = AccessPattern("w#{warehouse}", "sh#{id}", index="GSI2")


class ShipmentItem(Entity, table=shop, tag="shipmentItem"):
    order: str
    id: str
    shipment: str
    product: str
    quantity: Annotated[str, Stored("Quantity")]

    primary = PrimaryKey("o#{order}", "shp#{id}")
    of_shipment = AccessPattern("sh#{shipment}", "p#{product}", index="GSI1")


devices = Table(
    "DeviceStateLog",
    keys=("DeviceID", "State#Date"),
    index_keys={"GSI1": ("Operator", "Date"), "GSI2": ("EscalatedTo", "State#Date")},
    key_style="verbatim",
    tag=None,
)


class DeviceState(Entity, table=devices):
    device: Annotated[str, Stored("DeviceID")]
    state: Annotated[str, Stored("State")]
    date: Annotated[str, Stored("Date")]
    operator: Annotated[str, Stored("Operator")]
    escalated_to: Annotated[str | None, Stored("EscalatedTo")] = None

    primary = PrimaryKey("{device}", "{state}#{date}")
    of_operator = AccessPattern("{operator}", "{date}", index="GSI1")
    escalated = AccessPattern("{escalated_to}", "{state}#{date}", index="GSI2")
