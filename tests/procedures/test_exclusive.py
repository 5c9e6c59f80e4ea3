"""A table that only odm writes to (``exclusive=True``): requests do not check for items of other programs."""

from typing import Any

import pytest

from odm import Entity, PrimaryKey, SchemaError, Store, Table
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import MutateRow
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory
from odm.testing.suite.helpers import fill
from tests.shop import Counting

own = Table("notes", exclusive=True)
shared = Table("notes")
theirs = Table("notes")


class Own(Entity, table=own, tag="Note"):
    name: str
    text: str = ""

    primary = PrimaryKey("NOTES", "{name}")


class Shared(Own, table=shared, tag="Note"):
    primary = PrimaryKey("NOTES", "{name}")


class Theirs(Entity, table=theirs):
    name: str

    primary = PrimaryKey("NOTES", "{name}")


def _native(backend: Any, entity: Entity, **options: Any) -> Any:
    table: Any = type(entity).__odm_table__
    return Store(table, backend).explain(entity, **options).native


def test_a_put_on_dynamodb_has_no_condition() -> None:
    assert "ConditionExpression" not in _native(DynamoDB(), Own(name="a")).kwargs
    assert "ConditionExpression" not in _native(DynamoDB(), Own(name="a"), write="delete").kwargs
    assert "ConditionExpression" in _native(DynamoDB(), Shared(name="a")).kwargs


def test_a_filter_and_a_count_on_dynamodb_do_not_look_for_others() -> None:
    query = Own.primary().where(Own.text == "x")
    assert Store(own, DynamoDB()).explain(query).native.kwargs["FilterExpression"] == "#1 = :1"


def test_a_put_is_one_mutation_on_bigtable() -> None:
    backend = Bigtable("p", "i", endpoint="localhost:1")
    assert isinstance(_native(backend, Own(name="a")), MutateRow)
    assert not isinstance(_native(backend, Shared(name="a")), MutateRow)


def test_a_batch_reads_nothing_and_replaces_what_is_there() -> None:
    backend = Counting()
    Store(theirs, backend).create()
    Store(theirs, backend).put(Theirs(name="a"))
    db = Store(own, backend)
    backend.requests.clear()
    fill(db, [Own(name="a"), Own(name="b")])
    assert backend.requests == ["BatchWrite"]
    assert [note.name for note in db.query(Own.primary())] == ["a", "b"]


def test_a_put_replaces_what_is_there() -> None:
    backend = Memory()
    Store(theirs, backend).create()
    Store(theirs, backend).put(Theirs(name="a"))
    Store(own, backend).put(Own(name="a"))
    assert Store(own, backend).get(Own, name="a") == Own(name="a")


def test_it_is_true_or_false() -> None:
    with pytest.raises(SchemaError, match="exclusive is True or False, not 'yes'"):
        Table("notes", exclusive="yes")  # type: ignore[call-overload]
