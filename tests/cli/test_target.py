"""``module:table``: what it may be, and one clear line for what it is not."""

import sys

import pytest

from tests.cli.conftest import SHOP, Application, Run


@pytest.mark.parametrize("target", ["shop", "shop:shop", "app.models:shop", "app.models:Holder.table", "app.models"])
def test_a_table_is_found(target: str, run: Run, application: Application) -> None:
    application.write("", "app/__init__.py")
    application.write(f"{SHOP}\n\nclass Holder:\n    table = shop\n\n\nagain = shop\n", "app/models.py")
    done = run("schema", target)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("shop.py", "'shop.py' does not name a table: write module:table, as in shop.models:shop"),
        ("app/models:shop", "'app/models:shop' does not name a table: write module:table"),
        ("", "'' does not name a table"),
        (":shop", "':shop' does not name a table"),
        ("shop:", "'shop:' has no name after its colon: write module:table, as in shop:shop"),
        ("shpo:shop", "there is no module 'shpo' in "),
        ("shpo:shop", "; did you mean 'shop'?"),
        ("shop.models:shop", "there is no module 'shop.models' in "),
        ("shop:shp", "shop has no 'shp'; did you mean 'shop'?"),
        ("shop:xyz", "shop has no 'xyz': write shop:shop"),
        ("shop:Order.xyz", "shop:Order has no 'xyz': write shop:shop"),
        ("shop:Order", "shop:Order is the class Order, not a Table: write shop:shop"),
        ("shop:Order.primary", "shop:Order.primary is of type BoundPattern, not a Table: write shop:shop"),
        ("empty", "module 'empty' has no Table: name the module that declares one, as module:table"),
        ("empty:number", "empty:number is of type int, not a Table: there is none in module empty"),
        ("two", "module 'two' has several tables: write two:one or two:other"),
    ],
)
def test_what_names_no_table(target: str, why: str, run: Run, application: Application) -> None:
    application.write("number = 1\n", "empty.py")
    application.write("from odm import Table\n\none, other = Table('one'), Table('other')\n", "two.py")
    done = run("schema", target)
    assert (done.code, done.out) == (2, "")
    assert why in done.line


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            "import missing_package\n",
            "ModuleNotFoundError: No module named 'missing_package' ({folder}/shop.py, line 1)",
        ),
        ("import helper\n", "ModuleNotFoundError: No module named 'missing_package' ({folder}/helper.py, line 2)"),
        ("\nx = 1 / 0\n", "ZeroDivisionError: division by zero ({folder}/shop.py, line 2)"),
        ("\n\nclass (:\n", "SyntaxError: invalid syntax ({folder}/shop.py, line 3)"),
        ("from odm import nothing\n", "ImportError: cannot import name 'nothing' from 'odm'"),
        ("import sys\nsys.exit('bye')\n", "SystemExit: bye ({folder}/shop.py, line 2)"),
        ("import asyncio\nraise asyncio.CancelledError\n", "CancelledError: ({folder}/shop.py, line 2)"),
        ("raise RuntimeError('two\\nlines')\n", "RuntimeError: two lines ({folder}/shop.py, line 1)"),
    ],
)
def test_a_module_that_can_not_be_imported(source: str, why: str, run: Run, application: Application) -> None:
    application.write("\nimport missing_package\n", "helper.py")
    application.write(source)
    done = run("schema", "shop:shop")
    assert (done.code, done.out) == (1, "")
    assert "module 'shop' cannot be imported: " in done.line
    assert why.format(folder=application.folder) in done.line


def test_an_attribute_that_raises(run: Run, application: Application) -> None:
    application.write("def __getattr__(name):\n    raise ValueError(f'no {name}')\n")
    done = run("schema", "shop:late")
    assert (done.code, done.out) == (1, "")
    assert done.line == f"odm: shop:late cannot be read: ValueError: no late ({application.folder}/shop.py, line 2)\n"


def test_a_model_that_does_not_compile(run: Run, application: Application) -> None:
    application.change(("#{email}", "#{mail}"))
    done = run("check", "shop:shop")
    assert (done.code, done.out) == (1, "")
    assert "Customer.by_email: key template 'EMAIL#{mail}'" in done.line


def test_a_declaration_that_is_refused_while_it_is_imported(run: Run, application: Application) -> None:
    application.change(('Table("shop")', 'Table("a shop")'))
    done = run("check", "shop:shop")
    assert (done.code, done.out) == (1, "")
    assert done.line.startswith("odm: Table('a shop'): a name has")


def test_a_table_without_entities(run: Run, application: Application) -> None:
    application.write("from odm import Table\n\nshop = Table('shop')\n")
    done = run("lock", "shop:shop")
    assert (done.code, done.out) == (1, "")
    assert "table 'shop' has no entities" in done.line
    assert not (application.folder / "odm.lock").exists()


def test_what_a_module_prints_does_not_mix_with_the_answer(run: Run, application: Application) -> None:
    application.write(f"print('loading')\n{SHOP}")
    done = run("schema", "shop", "--json")
    assert done.err == "loading\n"
    assert done.out.startswith("{")


def test_the_current_folder_goes_first(run: Run, application: Application) -> None:
    """A module of the folder wins over an installed one of the same name."""
    application.write("", "installed/shopping.py")
    sys.path.insert(0, str(application.folder / "installed"))
    application.write(SHOP, "shopping.py")
    assert run("schema", "shopping:shop").code == 0
