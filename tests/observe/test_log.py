"""The log names operations, tables and entities. Exceptions also name keys and values; the log never does."""

import ast
import logging
from pathlib import Path

import pytest

import odm
from odm import ConditionFailed, ItemExists, ItemNotFound, Store
from odm.backends.local import Memory
from odm.results import RequestInfo
from tests.shop import Order, shop

SOURCES = Path(odm.__file__).parent.parent
SECRETS = ("s3cret-customer", "s3cret-order", "s3cret-region")


def logged(path: Path) -> list[ast.Call]:
    """The calls of a module that write to a log."""
    text = path.read_text(encoding="utf-8")
    if "LOG" not in text:
        return []
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and len(node.args) > 1]
    return [call for call in calls if ast.unparse(call.func).split(".")[0] in ("LOG", "_LOG")]


@pytest.mark.parametrize("folder", ["odm", "backends", "patterns"])
def test_no_log_call_passes_keys_values_or_the_message_of_an_error(folder: str) -> None:
    found = [(path, call) for path in sorted((SOURCES / folder).rglob("*.py")) for call in logged(path)]
    assert found
    for path, call in found:
        for argument in (*call.args[1:], *(keyword.value for keyword in call.keywords)):
            names = {ast.unparse(argument), ast.unparse(argument).rpartition(".")[2]}
            secret = {
                "error",
                "failure",
                "answer",
                "key",
                "row_key",
                "value",
                "values",
                "item",
                "native",
                "reason",
                "True",
            }
            assert not names & secret, f"{path}:{call.lineno}: {ast.unparse(call)}"


def test_exceptions_and_hooks_have_keys_and_the_log_does_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "odm")
    infos: list[RequestInfo] = []
    customer, order, region = SECRETS
    with Store(shop, Memory(), on_request=infos.append) as db:
        db.create()
        one = Order(customer_id=customer, order_id=order, region=region)
        db.insert(one)
        key = Order.primary(customer_id=customer, order_id=order)
        with pytest.raises(ItemExists, match=order):
            db.insert(one)
        with pytest.raises(ConditionFailed, match=order):
            db.delete(key, when=Order.region == "another")
        db.delete(key)
        with pytest.raises(ItemNotFound, match=order):
            db.one(key)
        assert list(db.query(Order.primary(customer_id=customer))) == []
    assert any(order in str(info.native) for info in infos)
    texts = [record.getMessage() for record in caplog.records]
    assert any(text.startswith("Put on table ") for text in texts)
    assert not [text for text in texts if any(secret in text for secret in SECRETS)]
