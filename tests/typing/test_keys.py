"""The mypy plugin finds mistakes in keys and patterns, and is silent about what is right.

tests/typing/test_checkers.py has the runs of the checkers in which it does; this module has what belongs to the plugin
alone.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from odm import AccessPattern, Entity, OdmError, PrimaryKey, SchemaError, Store, Table
from odm.backends.local import Memory
from tests.typing import keys_correct
from tests.typing.keys_mistakes import BOTH, IMPORTS, MYPY
from tests.typing.keys_models import shop

ROOT = Path(__file__).parents[2]
ODD = """\
import sys
from typing import Any, ClassVar
from odm import *

shop = Table("odd")
TEMPLATE = "A#{a}"
KEYS: dict[str, Any] = {"partition": TEMPLATE}

class Odd(Entity, table=shop):
    a: str
    later: "Later"
    primary = PrimaryKey(**KEYS)
    one = AccessPattern(f"{TEMPLATE}", index="i1")
    two = AccessPattern(*[TEMPLATE], index="i2")
    three: ClassVar[AccessPattern] = AccessPattern("B#{a", "}")  # type: ignore[odm]
    four: ClassVar = AccessPattern
    six, seven = AccessPattern("D#{a}"), AccessPattern("E#{a}")
    eight: ClassVar = (lambda: AccessPattern("F#{b}"))()
    nine = AccessPattern()  # type: ignore[call-arg]
    ten: ClassVar = missing_function("x")  # type: ignore[name-defined]
    for eleven in [AccessPattern("G#{a}")]:
        pass
    if sys.version_info >= (3, 11):
        twelve = AccessPattern("H#{a}")
        thirteen = AccessPattern("J#{a}")
    else:
        twelve = AccessPattern("I#{b}")
    try:
        fourteen = AccessPattern("K#{a}", shards=Shards(**KEYS))
    finally:
        pass
    @AccessPattern("L#{a}")
    @staticmethod
    def fifteen(a: str, /, *args: int, **more: int) -> None: ...  # type: ignore[odm]
    thirteen = AccessPattern("M#{later}")

class Later(Odd): # without a table
    primary = PrimaryKey("X#{nothing}")

for name in ("a", "b"):
    Odd.primary(**{name: name})
Odd.one(anything=1), Odd.two(anything=1), Odd.thirteen(anything=1), Odd.four("N"), Odd.eight(anything=1)
Odd.twelve(b=1)  # type: ignore[call-arg]
[Odd.primary, Odd.one][0](anything=1)
Store(shop, backend).get(*[Odd])  # type: ignore[name-defined]
"""


@pytest.mark.parametrize("mistake", [*MYPY, *BOTH])
def test_a_mistake_fails_when_it_runs(mistake: str) -> None:
    with pytest.raises((OdmError, TypeError, AttributeError)):
        run(mistake)


def run(mistake: str) -> None:
    """Run a mistake, and compile the table of the class that it declares."""
    names: dict[str, object] = {}
    exec(IMPORTS, names)
    before = {*names}
    exec(mistake, names)
    for made in (names[name] for name in names.keys() - before):
        if isinstance(made, type) and issubclass(made, Entity) and made.__odm_table__ is not None:
            made.__odm_table__.compile()


def signed(function: Callable[..., None]) -> None:
    """Compile an entity whose pattern has this signature."""

    class Signed(Entity, table=Table("signed")):
        name: str
        rank: int | None = None

        primary = PrimaryKey("{name}")
        by_rank = AccessPattern("N#{name}", "{rank}")(function)

    assert Signed.__odm_table__ is not None
    Signed.__odm_table__.compile()


def all_fields(*, name: str, rank: int = ...) -> None: ...
def without_types(*, name, rank=...) -> None: ...  # type: ignore[no-untyped-def]
def without_rank(*, name: str) -> None: ...
def misspelt(*, nam: str, rank: int) -> None: ...
def by_position(name: str, rank: int) -> None: ...
def optional(*, name: str = "", rank: int = 0) -> None: ...
def other_type(*, name: str, rank: str) -> None: ...


def test_a_signature_is_compared_with_templates_and_fields() -> None:
    right: list[Callable[..., None]] = [all_fields, staticmethod(all_fields), without_types]
    for function in right:
        signed(function)
    wrong: dict[Callable[..., None], str] = {
        without_rank: "by_rank: its signature lacks 'rank', which is in the templates",
        misspelt: "its signature has 'nam', which is not in the templates: did you mean 'name'?",
        by_position: "its values are passed by name: write '\\*, name' in its signature",
        optional: "'name' is in the partition template, so each call needs it: remove its default",
        other_type: "'rank' is of type int, and of type str in its signature: write the type of the field",
    }
    for function, why in wrong.items():
        with pytest.raises(SchemaError, match=why):
            signed(function)
    with pytest.raises(SchemaError, match=r"is a declaration, not a call"):
        AccessPattern("N#{name}")("n")  # type: ignore[arg-type]


def test_what_is_right_runs() -> None:
    with Store(shop, Memory()) as db:
        db.create()
        keys_correct.lines(db)


def mypy(folder: Path, *files: str) -> list[str]:
    """What mypy reports, with a configuration and a cache in the folder."""
    (folder / "mypy.ini").write_text(
        f"[mypy]\nplugins = pydantic.mypy, odm.mypy\nstrict = True\nmypy_path = {ROOT}\nexplicit_package_bases = True\n"
        "show_traceback = True\n[mypy-odm.*]\nignore_errors = True\n"
        "[mypy-apache_beam.*]\nignore_missing_imports = True\n"
        "[pydantic-mypy]\ninit_forbid_extra = True\ninit_typed = True\nwarn_required_dynamic_aliases = True\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", *files]
    environment = {**os.environ, "MYPY_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if ": error: " in line]


@pytest.mark.full
def test_it_works_beside_pydantics_plugin_from_a_cold_and_from_a_warm_cache(tmp_path: Path) -> None:
    right = [str(ROOT / "tests/typing" / name) for name in ("keys_models.py", "keys_correct.py")]
    (tmp_path / "odd.py").write_text(ODD)
    (tmp_path / "mistakes.py").write_text(IMPORTS + "".join(f"{line}\n" for line in MYPY))
    cold = mypy(tmp_path, *right, "odd.py", "mistakes.py")
    assert {line.partition(":")[0] for line in cold} == {"mistakes.py"}
    lines = {int(line.split(":")[1]) for line in cold}
    begin = IMPORTS.count("\n") + 1
    for mistake in MYPY:
        end = begin + mistake.count("\n") + 1
        assert lines & {*range(begin, end)}, mistake
        begin = end
    (tmp_path / "mistakes.py").write_text((tmp_path / "mistakes.py").read_text() + "# read again\n")
    assert mypy(tmp_path, *right, "odd.py", "mistakes.py") == cold
    said = "\n".join(cold)
    assert "Order.primary() has no key field 'custmer_id': did you mean 'customer_id'? give customer_id, then" in said
    assert 'Order.primary(): \'order_id\' is of type "str", but the field is of type "UUID"' in said
    assert "A.primary: there is no field 'b'; the fields are a" in said
