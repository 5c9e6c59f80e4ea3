"""`odm explain`: the plan of a call and its native request, on any backend, with nothing sent."""

import json

import pytest

from tests.cli.command_line import each, odm
from tests.cli.conftest import Application, Run

QUERY = 'Order.by_date(customer_id="c1").where(Order.total > 5).limit(3)'


def test_a_query(run: Run) -> None:
    done = run("explain", "shop:shop", QUERY)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[:4] == [
        "call       Order.by_date(customer_id='c1').where(total > 5).limit(3)",
        'pattern    by_date = AccessPattern("CUSTOMER#{customer_id}", "PLACED#{placed_at}#{order_id}")',
        "index      by_date",
        "partition  CUSTOMER#c1",
    ]


@pytest.mark.parametrize(
    ("expression", "call"),
    [
        ('select(Order).where(Order.customer_id == "c1")', "select(Order).where(customer_id = 'c1')"),
        ('collection(Customer.primary(customer_id="c1"))', "collection(Customer.primary(customer_id='c1'))"),
        (
            "Order.by_date(customer_id='c1').where(Order.placed_at >= datetime(2026, 1, 1, tzinfo=UTC))  # since",
            "Order.by_date(customer_id='c1').where(placed_at >= 2026-01-01 00:00:00+00:00)",
        ),
        ('Customer(customer_id="c1", email="e")', "put Customer.primary(customer_id='c1')"),
        (
            'Order.primary(customer_id="c1", order_id="o1"), increment(Order.total, Decimal(5)), when=Order.total > 1',
            "update Order.primary(customer_id='c1', order_id='o1')",
        ),
        ('Customer.primary(customer_id="c1"), write="delete"', "delete Customer.primary(customer_id='c1')"),
    ],
)
def test_whatever_explain_takes(expression: str, call: str, run: Run) -> None:
    done = run("explain", "shop", expression, "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["call"] == call


def test_json(run: Run) -> None:
    found = json.loads(run("explain", "shop", QUERY, "--json").out)
    assert found["index"] == "by_date"
    assert found["range"] == ["PLACED#", "PLACED$"]
    assert found["filter"] == "total > 5"
    assert found["limit"] == 3
    assert found["native"] == {
        **found["native"],
        "request": "Query",
        "partition": "CUSTOMER#c1",
        "index": "by_date",
        "filter": "total > 5 or not _t in ('Customer', 'Order')",  # items of no entity are an error, not left out
        "limit": 3,
    }


def test_the_request_to_dynamodb_needs_no_credentials_and_no_client(application: Application) -> None:
    missing = "import sys; sys.modules['boto3'] = sys.modules['botocore'] = None\n"
    command = ["explain", "shop", QUERY, "--backend", "dynamodb"]
    done = odm(application.folder, run=missing + each(command, [*command, "--json"], before="print('===')"))
    assert (done.returncode, done.stderr) == (0, "exit 0\n" * 2)
    _, plain, native = done.stdout.split("===\n")
    assert "KeyConditionExpression='#0 = :0 AND #1 BETWEEN :1 AND :2'" in plain
    native = json.loads(native)["native"]
    assert native["operation"] == "query"
    assert native["kwargs"]["IndexName"] == "by_date"
    assert native["kwargs"]["ExpressionAttributeValues"][":3"] == {"N": "5"}


def test_the_request_to_bigtable(run: Run, application: Application) -> None:
    query = 'Order.primary(customer_id="c1")'
    assert "native     read shop start=" in run("explain", "shop", query, "--backend", "bigtable").out
    native = json.loads(run("explain", "shop", query, "--backend", "bigtable", "--json").out)["native"]
    assert native["request"] == "ReadRows"
    assert native["range"]["start"] == "CUSTOMER#c1#ORDER#"


@pytest.mark.parametrize(
    ("expression", "code", "why"),
    [
        ('Order.by_date(customer_id="c1"', 2, "is not a Python expression: '(' was never closed"),
        ("Order) + (1", 2, "is not a Python expression"),
        ("import os", 2, "is not a Python expression"),
        ("", 2, "TypeError"),
        ("Orders.by_date()", 2, "NameError: name 'Orders' is not defined"),
        ("Order.by_dat()", 2, "AttributeError: Order has no field or pattern 'by_dat': did you mean 'by_date'?"),
        ("1 / 0", 2, "'1 / 0' cannot be evaluated: ZeroDivisionError: division by zero"),
        ("exit(3)", 2, "'exit(3)' cannot be evaluated: SystemExit: 3"),
        ("(_ for _ in ()).throw(GeneratorExit)", 2, "cannot be evaluated: GeneratorExit"),
        ("Order.by_date()", 1, "Order.by_date() needs 'customer_id'"),
        ('Order.by_date(customer_id="")', 1, "customer_id=''"),
        ("5", 1, "5 is not a key"),
    ],
)
def test_what_can_not_be_explained(expression: str, code: int, why: str, run: Run) -> None:
    done = run("explain", "shop", expression)
    assert (done.code, done.out) == (code, "")
    assert why in done.line


def test_a_query_that_no_pattern_serves_names_the_one_that_would(run: Run) -> None:
    done = run("explain", "shop", "select(Order).where(Order.total > 5)")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("odm: no access pattern of Order serves: total > 5\n")
    assert "AccessPattern(" in done.err


def test_an_unknown_backend(run: Run) -> None:
    done = run("explain", "shop", QUERY, "--backend", "redis")
    assert done.code == 2
    assert "'redis' is not one of" in done.line


def test_what_the_expression_prints_does_not_mix_with_the_answer(run: Run) -> None:
    done = run("explain", "shop", f"print('here') or {QUERY}", "--json")
    assert (done.code, done.err) == (0, "here\n")
    assert json.loads(done.out)["limit"] == 3
