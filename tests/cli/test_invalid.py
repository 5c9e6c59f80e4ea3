"""`odm invalid`, on files; the conformance suite has what it reads and deletes on every backend."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from odm import Store
from odm.backends.local import LocalFile
from odm.cli.target import load_target
from tests.cli.conftest import Application, Run

LOOSE = """
from typing import Any

from odm import AccessPattern, Entity, PrimaryKey, Table

shop = Table("shop")


class Order(Entity, table=shop):
    customer_id: str
    order_id: str
    total: Any = 1
    part: dict[str, Any] = {"code": "aa"}
    marks: list[Any] = []

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
    by_total = AccessPattern("TOTAL", "{order_id}")


class Customer(Entity, table=shop):
    customer_id: str

    primary = PrimaryKey("CUSTOMER#{customer_id}", "PROFILE")


class Unknown(Entity, table=shop):
    name: str

    primary = PrimaryKey("UNKNOWN#{name}", "X")
"""

STRICT = """
from typing import Annotated, Any

from pydantic import BaseModel, Field

from odm import AccessPattern, Entity, PrimaryKey, Table

shop = Table("shop")


class Part(BaseModel):
    code: Annotated[str, Field(min_length=2)] = "aa"


class Order(Entity, table=shop):
    customer_id: str
    order_id: str
    total: int = 1
    part: Part = Part()
    marks: list[Annotated[int, Field(ge=0)]] = []

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
    by_total = AccessPattern("TOTAL", "{order_id}")


class Customer(Entity, table=shop):
    customer_id: str

    primary = PrimaryKey("CUSTOMER#{customer_id}", "PROFILE")
"""
LIST = ("invalid", "shop:shop", "shop.db")


@pytest.fixture
def stored(application: Application) -> Application:
    """Three orders of six that do not fit, one of them in two places, and a customer that fits."""
    application.write(LOOSE, "loose.py")
    loose = load_target("loose:shop")
    order = loose.module.Order
    with Store(loose.table, LocalFile("shop.db")) as db:
        db.create()
        for n in range(3):
            db.put(order(customer_id="c", order_id=f"fits{n}"))
        db.put(order(customer_id="c", order_id="o1", total="many"))
        db.put(order(customer_id="c", order_id="o2", part={"code": "x"}, marks=[1, -1]))
        db.put(order(customer_id="c", order_id="o3", total="m" * 500))
        db.put(loose.module.Customer(customer_id="c"))
        db.put(loose.module.Unknown(name="n"))
    application.write(STRICT)
    return application


def _orders() -> list[Any]:
    loose = load_target("loose:shop")
    with Store(loose.table, LocalFile("shop.db")) as db:
        return sorted(one.order_id for one in db.scan(loose.module.Order))


ALL = ["fits0", "fits1", "fits2", "o1", "o2", "o3"]


def test_lists_key_entity_field_reason_value_and_fix(run: Run, stored: Application) -> None:
    done = run(*LIST)
    assert (done.code, done.err) == (1, "")
    assert done.out.replace("m" * 79, "m…") == (
        "Order  CUSTOMER#c | ORDER#o1\n"
        "    total: Input should be a valid integer, unable to parse string as an integer, stored: 'many'\n"
        "    fix: db.update(Order.primary(customer_id='c', order_id='o1'), set_(Order.total, ...))\n"
        "Order  CUSTOMER#c | ORDER#o2\n"
        "    part.code: String should have at least 2 characters, stored: 'x'\n"
        "    fix: db.update(Order.primary(customer_id='c', order_id='o2'), set_(Order.part.code, ...))\n"
        "    marks[1]: Input should be greater than or equal to 0, stored: -1\n"
        "    fix: db.update(Order.primary(customer_id='c', order_id='o2'), set_(Order.marks[1], ...))\n"
        "Order  CUSTOMER#c | ORDER#o3\n"
        "    total: Input should be a valid integer, unable to parse string as an integer, stored: 'm……\n"
        "    fix: db.update(Order.primary(customer_id='c', order_id='o3'), set_(Order.total, ...))\n"
        "table shop: 3 of 7 items read do not fit; to delete them, add --delete\n"
    )
    assert _orders() == ALL


def test_prints_json(run: Run, stored: Application) -> None:
    done = run(*LIST, "--format", "json", "--limit", "1")
    assert done.code == 1
    found = json.loads(done.out)
    assert found == {
        "table": "shop",
        "items": 7,
        "deleted": 0,
        "invalid": [
            {
                "entity": "Order",
                "partition": "CUSTOMER#c",
                "sort": "ORDER#o1",
                "faults": [
                    {
                        "field": "total",
                        "reason": "Input should be a valid integer, unable to parse string as an integer",
                        "value": "'many'",
                        "fix": "db.update(Order.primary(customer_id='c', order_id='o1'), set_(Order.total, ...))",
                    }
                ],
                "deleted": False,
                "error": None,
            }
        ],
    }


def test_an_entity_whose_items_fit_has_exit_code_0(run: Run, stored: Application) -> None:
    done = run(*LIST, "--entity", "Customer")
    assert (done.code, done.out) == (0, "table shop: 0 of 1 item read do not fit\n")
    assert run(*LIST, "--entity", "Order").code == 1
    refused = run(*LIST, "--entity", "Orders")
    assert refused.code == 2
    assert "--entity Orders: table 'shop' has no such entity; it has Order, Customer" in refused.line


def test_deletes_what_is_confirmed_with_its_index_entries(
    run: Run, stored: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(*LIST, "--delete", "--yes")
    assert done.code == 1
    assert done.out.count("  deleted\n") == 3
    assert done.out.endswith("table shop: 3 of 7 items read do not fit; 3 deleted\n")
    assert _orders() == ["fits0", "fits1", "fits2"]
    loose = load_target("loose:shop")
    with Store(loose.table, LocalFile("shop.db")) as db:
        assert db.count(loose.module.Order.by_total()) == 3
    assert run(*LIST).code == 0


@pytest.mark.parametrize("answer", ["", "\n", "n\n"])
def test_deletes_nothing_without_a_yes(
    run: Run, stored: Application, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    done = run(*LIST, "--delete")
    assert done.code == 1
    assert "Delete 3 of 7 items of table shop, which do not fit their models? [y/N]" in done.err
    assert "nothing was deleted: the deletion was not confirmed; to skip the question, add --yes" in done.err
    assert _orders() == ALL


def test_refuses_to_delete_most_of_what_it_read(run: Run, stored: Application) -> None:
    loose = load_target("loose:shop")
    with Store(loose.table, LocalFile("shop.db")) as db:
        for n in range(3):
            db.delete(loose.module.Order, customer_id="c", order_id=f"fits{n}")
    done = run(*LIST, "--delete", "--yes")
    assert done.code == 1
    assert "3 of 4 items of table shop do not fit, more than half: are these the models" in done.err
    assert _orders() == ["o1", "o2", "o3"]
    assert run(*LIST, "--delete", "--yes", "--remove-most").code == 1
    assert _orders() == []


def test_items_whose_key_or_upgrade_does_not_fit(run: Run, application: Application) -> None:
    numbered = "class Customer(Entity, table=shop):\n    customer_id: "
    application.write(LOOSE.replace(f"{numbered}str", f"{numbered}int"), "loose.py")
    loose = load_target("loose:shop")
    with Store(loose.table, LocalFile("shop.db")) as db:
        db.create()
        db.put(loose.module.Customer(customer_id=5))
        db.put(loose.module.Order(customer_id="c", order_id="o1", total=0))
    upgrade = """
    @upgrade(from_=1)
    @staticmethod
    def halved(item: dict[str, Any]) -> dict[str, Any]:
        return item | {"total": 1 // item["total"]}
"""
    strict = STRICT.replace("Order(Entity, table=shop)", "Order(Entity, table=shop, version=2)")
    strict = strict.replace("Table\n", "Table, upgrade\n", 1)
    by_total = 'by_total = AccessPattern("TOTAL", "{order_id}")\n'
    application.write(strict.replace(by_total, by_total + upgrade))
    done = run(*LIST)
    assert done.code == 1
    assert "    customer_id: Input should be a valid string, stored: 5\n" in done.out
    assert "fix: db.put(Customer(...)) over it" in done.out
    assert "ZeroDivisionError" in done.out
    assert "fix: fix the upgrade, or the stored item" in done.out
    assert run(*LIST, "--delete", "--yes", "--remove-most").out.count("  deleted\n") == 2
    assert run(*LIST).code == 0


def test_a_file_that_does_not_exist_is_not_made(run: Run, application: Application) -> None:
    done = run("invalid", "shop:shop", "nowhere.db")
    assert done.code == 1
    assert "nowhere.db" in done.line
    assert not Path("nowhere.db").exists()
