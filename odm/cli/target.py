"""``module:table`` on the command line: import the user's module and find the table in it."""

import importlib
import sys
import traceback
from collections.abc import Iterable
from contextlib import redirect_stdout
from difflib import get_close_matches
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any

from odm.cli.usage import BadUsage
from odm.errors import BadValue, OdmError
from odm.immutable import Immutable
from odm.schema.model import Schema
from odm.schema.table import Table

if TYPE_CHECKING:
    from odm.patterns.time_series import TimeSeries


class Target(Immutable):
    """What ``module:table`` names.

    Attributes:
        text: the argument.
        table: the table.
        schema: the table, compiled.
        module: the module that has it.
    """

    text: str
    table: Table
    schema: Schema
    module: ModuleType


def load_target(text: str) -> Target:
    """Import the module of ``module:table``, from the current folder first, and compile the table.

    Args:
        text: a dotted module name, a colon, and a name or dotted path in it; the module alone if it has one table.

    Raises:
        BadUsage: there is no such module or table.
        BadValue: the module cannot be imported.
        SchemaError: the table does not compile.
    """
    name, colon, path = text.partition(":")
    if name.endswith(".py") or not all(part.isidentifier() for part in name.split(".")):
        raise BadUsage(f"{text!r} does not name a table: write module:table, as in shop.models:shop")
    if colon and not path:
        raise BadUsage(f"{text!r} has no name after its colon: write module:table, as in {name}:shop")
    module = _import(name)
    table = _walk(module, path) if path else _only_table(module)
    return Target(text, table, table.compile(), module)


def load_series(text: str) -> "TimeSeries[Any]":
    """Import the module of ``module:series``, and check the time series.

    Raises:
        BadUsage: there is no such module or time series.
        BadValue: the module cannot be imported.
        SchemaError: the series does not fit its entity.
    """
    from odm.patterns.time_series import TimeSeries  # imported here: other commands do without

    name, _, path = text.partition(":")
    if not path or not all(part.isidentifier() for part in name.split(".")):
        raise BadUsage(f"{text!r} does not name a time series: write module:series, as in meters.models:readings")
    module = _import(name)
    series = _object_at(module, path, "")
    if not isinstance(series, TimeSeries):
        known = ", ".join(f"{name}:{other}" for other, value in vars(module).items() if isinstance(value, TimeSeries))
        raise BadUsage(f"{text} is {_article(series)}, not a TimeSeries; in the module: {known or 'none'}")
    series.check()
    return series


def _import(name: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path[:1]:
        sys.path.insert(0, folder)
    try:
        with redirect_stdout(sys.stderr):  # the module's own output is not part of the result
            return importlib.import_module(name)
    except (OdmError, KeyboardInterrupt):
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error, folder) from error
        hint = _hint(error.name, (module.name for module in iter_modules([folder])), "")
        raise BadUsage(f"there is no module {error.name!r} in {folder} or among installed packages{hint}") from error
    except BaseException as error:
        raise _broken(name, error, folder) from error


def _broken(name: str, error: BaseException, folder: str) -> BadValue:
    """The error for a module that exists but cannot be imported."""
    return BadValue(f"module {name!r} cannot be imported: {_reason(error, folder)}")


def _reason(error: BaseException, folder: str) -> str:
    """The error that the user's code raised, and where."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    own = [frame for frame in frames if frame.filename.startswith(folder)]
    place = ""
    if isinstance(error, SyntaxError):
        place = f" ({error.filename}, line {error.lineno})"
        reason = f"SyntaxError: {error.msg}"
    elif own:
        place = f" ({own[-1].filename}, line {own[-1].lineno})"
    return f"{reason}{place}"


def _walk(module: ModuleType, path: str) -> Table:
    table = _object_at(module, path, _instead(module))
    if not isinstance(table, Table):
        raise BadUsage(f"{module.__name__}:{path} is {_article(table)}, not a Table{_instead(module)}")
    return table


def _object_at(module: ModuleType, path: str, instead: str) -> Any:
    """What a dotted path in a module names; ``instead``: which names the module has."""
    current: Any = module
    so_far = f"{module.__name__}:"
    for name in path.split("."):
        try:
            current = getattr(current, name)
        except AttributeError:
            hint = _hint(
                name, (_tables(module) if instead else dir(module)) if current is module else dir(current), instead
            )
            raise BadUsage(f"{so_far.rstrip(':.')} has no {name!r}{hint}") from None
        except (OdmError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise BadValue(f"{so_far}{name} cannot be read: {_reason(error, str(Path.cwd()))}") from error
        so_far += f"{name}."
    return current


def _only_table(module: ModuleType) -> Table:
    tables = _tables(module)
    different = list({id(table): table for table in tables.values()}.values())
    if not different:
        raise BadUsage(f"module {module.__name__!r} has no Table: name the module that declares one, as module:table")
    if len(different) > 1:
        raise BadUsage(f"module {module.__name__!r} has several tables{_instead(module)}")
    return different[0]


def _tables(module: ModuleType) -> dict[str, Table]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Table)}


def _instead(module: ModuleType) -> str:
    names = " or ".join(f"{module.__name__}:{name}" for name in _tables(module))
    return f": write {names}" if names else f": there is none in module {module.__name__}"


def _article(loaded: object) -> str:
    return f"the class {loaded.__name__}" if isinstance(loaded, type) else f"of type {type(loaded).__name__}"


def _hint(name: str, names: Iterable[str], otherwise: str) -> str:
    near = get_close_matches(name, list(names), 1)
    return f"; did you mean {near[0]!r}?" if near else otherwise
