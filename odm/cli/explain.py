"""`odm explain`: the requests of a store call, on any backend, without a store, a table or credentials."""

import ast
import json
import sys
from base64 import b64encode
from collections.abc import Mapping
from contextlib import redirect_stdout
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, assert_never
from uuid import UUID

from msgspec import Struct
from msgspec.structs import asdict
from typer import echo

import odm
from odm import Backend, Condition, Store
from odm.cli.target import Target, load_target
from odm.cli.usage import BadUsage
from odm.errors import OdmError
from odm.results import Explanation

BackendName = Literal["memory", "dynamodb", "bigtable"]

_VALUES: Final = {kind.__name__: kind for kind in (datetime, date, timedelta, Decimal, UUID)} | {"UTC": UTC}
"""Names for values of key fields; names of the module take precedence."""

_CALL: Final = "_odm_explain"


def explain(target: str, expression: str, backend: BackendName, *, as_json: bool) -> None:
    """Print what ``db.explain(expression)`` returns.

    Args:
        target: ``module:table``.
        expression: the arguments of ``db.explain(...)`` as Python code; it is run.
        backend: the backend whose native requests are shown; nothing is sent to it.
        as_json: print the explanation as JSON.

    Raises:
        BadUsage: the expression is not a Python expression, or fails.
        OdmError: the table cannot be loaded, or the call itself would raise it.
    """
    models = load_target(target)
    with redirect_stdout(sys.stderr):  # the module's own output is not part of the result
        explanation = _evaluate(models, expression, Store(models.table, _backend(backend)))
    echo(_json(explanation) if as_json else str(explanation))


def _backend(name: BackendName) -> Backend:
    """A backend that never sends anything, so its location does not matter."""
    match name:
        case "memory":
            from odm.backends.local import Memory

            return Memory()
        case "dynamodb":
            from odm.backends.dynamodb import DynamoDB

            return DynamoDB()
        case "bigtable":
            from odm.backends.bigtable import Bigtable

            return Bigtable("project", "instance")
        case _:
            assert_never(name)


def _evaluate(target: Target, expression: str, store: Store) -> Explanation:
    names: dict[str, Any] = {
        **_VALUES,
        **{name: getattr(odm, name) for name in odm.__all__},
        **{entity.name: entity.cls for entity in target.schema.entities.values()},
        **vars(target.module),
        _CALL: store.explain,
    }
    try:
        call = ast.parse(f"{_CALL}({expression}\n)", mode="eval")
        if not (isinstance(call.body, ast.Call) and isinstance(call.body.func, ast.Name)):
            raise SyntaxError("unmatched ')'")
        explanation: Explanation = eval(compile(call, "the expression", "eval"), names)
    except (OdmError, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        raise BadUsage(f"{expression!r} is not a Python expression: {error.msg}") from error
    except BaseException as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise BadUsage(f"{expression!r} cannot be evaluated: {reason}") from error
    return explanation


def _json(explanation: Explanation) -> str:
    plain = asdict(explanation)
    return json.dumps(plain, default=_plain, indent=2)


def _plain(value: Any) -> Any:
    """Values that JSON does not support: requests become objects, bytes base64, everything else text."""
    if isinstance(value, Struct) and not isinstance(value, Condition):
        return {"request": type(value).__name__, **asdict(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return sorted(value, key=repr) if isinstance(value, frozenset) else str(value)
