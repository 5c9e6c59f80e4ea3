"""Requests that show where the local services differ; odm never sends them or does not rely on the response.

The names are those in docs/differences.md, which shows the response of each service.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any
from uuid import uuid4

from attrs import frozen
from botocore.exceptions import ClientError

KEY = {"pk": {"S": "a"}, "sk": {"S": "b"}}
A, Z, N = {"S": "a"}, {"S": "z"}, {"N": "1"}


@frozen
class Service:
    """A table on one of the services: key ``pk`` and ``sk``, index ``by_g`` with ``gpk`` and ``gsk``."""

    client: Any
    table: str

    def create(self) -> None:
        def schema(prefix: str) -> list[dict[str, str]]:
            kinds = (("pk", "HASH"), ("sk", "RANGE"))
            return [{"AttributeName": f"{prefix}{name}", "KeyType": kind} for name, kind in kinds]

        index = {"IndexName": "by_g", "KeySchema": schema("g"), "Projection": {"ProjectionType": "ALL"}}
        self.client.create_table(
            TableName=self.table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": n, "AttributeType": "S"} for n in ("pk", "sk", "gpk", "gsk")],
            KeySchema=schema(""),
            GlobalSecondaryIndexes=[index],
        )

    def put(self, value: Any = None, /, **attributes: Any) -> None:
        item = KEY | ({} if value is None else {"x": value}) | attributes
        self.client.put_item(TableName=self.table, Item=item)

    def stored(self, number: str) -> str:
        """Put a number; returns the number that is read back."""
        self.put({"N": number})
        return str(self.client.get_item(TableName=self.table, Key=KEY)["Item"]["x"]["N"])

    def query(self, condition: str = "pk = :a", /, values: Any = None, names: Any = None, **more: Any) -> None:
        more |= {"ExpressionAttributeNames": names} if names else {}
        more |= {"ExpressionAttributeValues": {":a": A, **(values or {})}}
        self.client.query(TableName=self.table, KeyConditionExpression=condition, **more)

    def filter(self, text: str, /, values: Any = None, names: Any = None) -> None:
        self.query(FilterExpression=text, values=values, names=names)

    def write(self, *items: Any) -> None:
        puts = [{"PutRequest": {"Item": item}} for item in items]
        self.client.batch_write_item(RequestItems={self.table: puts})

    def transact(self, *items: Any, **more: Any) -> None:
        puts = [{"Put": {"TableName": self.table, "Item": item}} for item in items]
        self.client.transact_write_items(TransactItems=puts, **more)

    def twice(self) -> str:
        """The value of a counter after a transaction was sent twice with the same token."""
        change = {"UpdateExpression": "ADD y :n", "ExpressionAttributeValues": {":n": N}}
        update = {"TableName": self.table, "Key": keyed("token"), **change}
        token = uuid4().hex  # tokens stay valid after the table is deleted
        for _ in range(2):
            self.client.transact_write_items(TransactItems=[{"Update": update}], ClientRequestToken=token)
        return str(self.client.get_item(TableName=self.table, Key=keyed("token"))["Item"]["y"]["N"])

    def other(self) -> None:
        """Send a different transaction with the token of an earlier one."""
        token = uuid4().hex
        self.transact(keyed(1), ClientRequestToken=token)
        self.transact(keyed(2), ClientRequestToken=token)


def keyed(sort: object) -> dict[str, dict[str, str]]:
    """A key with this sort key."""
    return {"pk": {"S": "a"}, "sk": {"S": str(sort)}}


def nested(levels: int) -> dict[str, Any]:
    """Lists nested to this depth."""
    return reduce(lambda inner, _: {"L": [inner]}, range(levels), A)


MANY = {f":v{n}": {"N": str(n)} for n in range(101)}
LONG = {f"#{'n' * 200}{n}": f"x{n}" for n in range(20)}

PROBES: dict[str, Callable[[Service], Any]] = {
    "`BETWEEN` with the bounds exchanged": lambda s: s.query("pk = :a AND sk BETWEEN :z AND :a", {":z": Z}),
    "an expression of more than 4 KB": lambda s: s.filter(" OR ".join(f"{n} = :z" for n in LONG), {":z": Z}, LONG),
    "more than 300 operators": lambda s: s.filter(" OR ".join(["x = :z"] * 302), {":z": Z}),
    "`IN` with more than 100 operands": lambda s: s.filter(f"x IN ({', '.join(MANY)})", MANY),
    "a filter on a key attribute": lambda s: s.filter("sk = :z", {":z": Z}),
    "redundant parentheses": lambda s: s.filter("((x = :z))", {":z": Z}),
    "a name that no expression uses": lambda s: s.query(names={"#u": "u"}),
    "a value that no expression uses": lambda s: s.query(values={":u": Z}),
    "`contains(x, x)`": lambda s: s.filter("contains(x, x)"),
    "`x = x`": lambda s: s.filter("x = x"),
    "a start key outside of the range": lambda s: s.query(
        "pk = :a AND sk > :z", {":z": Z}, ExclusiveStartKey=keyed("b")
    ),
    "a start key of another partition": lambda s: s.query(ExclusiveStartKey={"pk": Z, "sk": A}),
    "a number of 39 digits": lambda s: s.put({"N": "1" * 39}),
    "`1E126`": lambda s: s.put({"N": "1E126"}),
    "`1.50`, read back": lambda s: s.stored("1.50"),
    "`-0`, read back": lambda s: s.stored("-0"),
    "`1.5E2`, read back": lambda s: s.stored("1.5E2"),
    "40 levels of lists": lambda s: s.put(nested(40)),
    "a number set of `1` and `1.0`": lambda s: s.put({"NS": ["1", "1.0"]}),
    "a string set with a text twice": lambda s: s.put({"SS": ["a", "a"]}),
    "an empty set": lambda s: s.put({"SS": []}),
    "an empty set in a list": lambda s: s.put({"L": [{"SS": []}]}),
    "a map with an empty key": lambda s: s.put({"M": {"": A}}),
    "a map with a key of more than 64 KB": lambda s: s.put({"M": {"k" * 65_536: A}}),
    "an empty text in an index key": lambda s: s.put(gpk={"S": ""}, gsk=A),
    "an index key of `NULL`": lambda s: s.put(gpk={"NULL": True}, gsk=A),
    "a batch of 26 writes": lambda s: s.write(*map(keyed, range(26))),
    "a key twice in a batch": lambda s: s.write(KEY, KEY),
    "an item twice in a transaction": lambda s: s.transact(KEY, KEY),
    "a transaction of more than 100": lambda s: s.transact(*map(keyed, range(101))),
    "a transaction of more than 4 MB": lambda s: s.transact(
        *(keyed(n) | {"x": {"B": b"x" * 390_000}} for n in range(11))
    ),
    "another transaction under a token": Service.other,
    "a counter, after a transaction was sent twice under one token": Service.twice,
}


def outcome(service: Service, probe: Callable[[Service], Any]) -> str:
    """The response of a service to a probe, as the table describes it."""
    try:
        found = probe(service)
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return "refuses it" if 400 <= status < 500 else "breaks"
    return "takes it" if found is None else f"`{found}`"
