"""`odm lint`: what it prints, what is suppressed, and the exit codes that a continuous integration job sees."""

import json
import re

import pytest

from odm.cli.demo.models import demo
from tests.cli.command_line import each, odm
from tests.cli.conftest import SHOP, Application, Run

PHONES = """\
from datetime import datetime

from odm import AccessPattern, Entity, PrimaryKey, Table

phones = Table("phones")


class Reading(Entity, table=phones):
    at: datetime
    user: str
    percent: int

    primary = PrimaryKey("BATTERY", "{at:ms}")
"""

FOUND = """\
error    lossy-key  Reading.primary  phones.py:13
    what  two Reading items of one millisecond (at) have the same key
    why   a put of one replaces the other, without an error
    see   https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.CoreComponents.html
    fix   primary = PrimaryKey("BATTERY#{user}", "{at:ms}")

warning  hot-partition  Reading.primary  phones.py:13
    what  every Reading has the same partition key
    why   a partition of DynamoDB takes 1,000 writes and 3,000 reads a second, whatever the table's capacity is; \
on Bigtable its rows sort by a time, so current writes go to one node
    see   https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-uniform-load.html
    fix   primary = PrimaryKey("BATTERY#{user}", "{at:ms}")

advice   missing-ttl  Reading.primary  phones.py:13
    what  a time series by at whose items are never deleted
    why   it is stored, and paid for, forever
    see   https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html
    fix   expires_at: Annotated[datetime, TTL]
          or keep the newest: class Reading(..., keep=1000)
"""

PROMOTED = ('"BATTERY", "{at:ms}"', '"BATTERY#{user}", "{at:ms}"')


@pytest.fixture
def phones(application: Application) -> Application:
    """The folder, with the phone batteries in it."""
    application.write(PHONES, "phones.py")
    return application


def test_the_hot_key_of_the_phone_batteries(run: Run, phones: Application) -> None:
    found = run("lint", "phones:phones")
    assert (found.code, found.out) == (1, FOUND)
    assert found.line == (
        "odm: table phones: 1 error, 1 warning, 1 advice; to suppress a finding, add a comment to its line: "
        "# odm: ignore[lossy-key]\n"
    )
    phones.write(PHONES.replace(*PROMOTED), "phones.py")
    fixed = run("lint", "phones:phones", "--ignore", "missing-ttl")
    assert fixed == (0, "table phones: nothing found\n", "")


def test_a_comment_a_rule_and_a_cloud_are_left_out(run: Run, phones: Application) -> None:
    left = run("lint", "phones", "--ignore", "lossy-key", "--ignore", "missing-ttl")
    assert left.out == FOUND.split("\n\n")[1] + "\n"
    phones.write(
        PHONES.replace('at:ms}")', 'at:ms}")  # odm: ignore[lossy-key, hot-partition, missing-ttl]'), "phones.py"
    )
    assert run("lint", "phones").code == 0
    phones.write(PHONES.replace(PROMOTED[0], '"BATTERY#{at}#{user}"'), "phones.py")
    assert run("lint", "phones", "--backend", "dynamodb").code == 0
    assert run("lint", "phones", "--backend", "bigtable").out.startswith("warning  monotonic-key  Reading.primary")


def test_json(run: Run, phones: Application) -> None:
    found = run("lint", "phones", "--json", "--ignore", "lossy-key", "--ignore", "missing-ttl")
    answer = json.loads(found.out)
    assert found.code == 1
    assert (answer["table"], answer["ok"]) == ("phones", False)
    assert answer["findings"] == [
        {
            "rule": "hot-partition",
            "severity": "warning",
            "where": "Reading.primary",
            "what": "every Reading has the same partition key",
            "why": answer["findings"][0]["why"],
            "source": "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-uniform-load.html",
            "fix": 'primary = PrimaryKey("BATTERY#{user}", "{at:ms}")',
            "backends": ["dynamodb", "bigtable"],
            "file": "phones.py",
            "line": 13,
        }
    ]
    phones.write(SHOP)
    clean = run("lint", "shop", "--json")
    assert (clean.code, json.loads(clean.out)) == (0, {"table": "shop", "ok": True, "findings": []})


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--ignore", "hot"], "there is no rule 'hot'"),
        (["--ignore", "hot-partitions"], "did you mean 'hot-partition'?"),
        (["--backend", "memory"], "See odm lint --help."),
    ],
)
def test_a_command_line_that_can_not_be_run(arguments: list[str], why: str, run: Run, phones: Application) -> None:
    done = run("lint", "phones", *arguments)
    assert (done.code, done.out) == (2, "")
    assert why in done.line


def test_models_that_do_not_compile(run: Run, application: Application) -> None:
    application.change(("#{email}", "#{mail}"))
    done = run("lint", "shop")
    assert (done.code, done.out) == (1, "")
    assert "no field 'mail'" in done.line


def test_as_a_program(phones: Application) -> None:
    done = odm(phones.folder, run=each(["lint", "phones"], ["lint", "shop"], ["lint", "shop", "--ignore", "x"]))
    assert re.findall(r"^exit (.)$", done.stderr, re.MULTILINE) == ["1", "0", "2"]
    assert "1 error, 1 warning, 1 advice" in done.stderr
    assert "there is no rule" in done.stderr
    assert done.stdout.endswith("table shop: nothing found\n")


def test_of_the_demo_it_finds_the_index_of_three_warehouses_alone() -> None:
    assert [(finding.rule, finding.where) for finding in demo.lint()] == [("hot-partition", "Order.open_orders")]
