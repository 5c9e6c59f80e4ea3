"""`odm backfill`: what it writes, how it goes on after an interruption, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from odm import Store
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile
from odm.cli.target import load_target
from odm.protocol.connection import Backend
from tests.cli.command_line import RUN
from tests.cli.conftest import Application, Run

pytestmark = [pytest.mark.one_of(2), pytest.mark.slow]

BY_DATE = 'by_date = AccessPattern("CUSTOMER#{customer_id}", "PLACED#{placed_at}#{order_id}")'
STATUS = (BY_DATE, f'by_status = AccessPattern("STATUS#{{status}}", "{{order_id}}")\n    {BY_DATE}')
UNIQUE = (
    'by_email = AccessPattern("EMAIL#{email}")',
    'by_email = AccessPattern("EMAIL#{email}")\n    unique_email = Unique("email")',
)
IMPORT = ("from odm import", "from odm.patterns.unique import Unique\nfrom odm import")


def fill(number: int, backend: Backend, prefix: str = "") -> None:
    """Put orders and customers."""
    found = load_target("shop:shop")
    order: Any = found.schema.entities["Order"].cls
    customer: Any = found.schema.entities["Customer"].cls
    with Store(found.table, backend, prefix=prefix) as db:
        db.create()
        with db.batch() as batch:
            for n in range(number):
                placed = "2026-01-05T00:00:00Z"
                batch.put(order(customer_id=f"c{n % 9}", order_id=f"o{n}", placed_at=placed, total=n))
            for n in range(9):
                batch.put(customer(customer_id=f"c{n}", email=f"{n % 8}@x"))


def open_orders(backend: Backend, prefix: str = "") -> int:
    """The number of orders that the new pattern finds."""
    found = load_target("shop:shop")
    order: Any = found.schema.entities["Order"].cls
    with Store(found.table, backend, prefix=prefix) as db:
        return db.count(order.by_status(status="open"))


@pytest.fixture
def file(application: Application) -> LocalFile:
    """``shop.db`` with 300 orders, from before the pattern by status."""
    backend = LocalFile(application.folder / "shop.db")
    fill(300, backend)
    application.change(STATUS)
    return backend


def test_a_new_pattern(run: Run, file: LocalFile) -> None:
    done = run("backfill", "shop:shop", "Order.by_status", "shop.db")
    assert (done.code, done.out, done.err) == (
        0,
        "Order.by_status: 300 items read, 300 written, 0 right already\n",
        "",
    )
    assert open_orders(file) == 300
    again = run("backfill", "shop:shop", "Order", "shop.db", "--json")
    assert again.code == 0
    assert json.loads(again.out) == {
        "target": "Order",
        "seen": 300,
        "written": 0,
        "failed": 0,
        "failures": [],
        "skipped": 300,
    }
    assert not Path("odm-backfill.state").exists()


def test_the_lock_file_knows_what_is_backfilled(run: Run, application: Application, file: LocalFile) -> None:
    application.change((STATUS[1], STATUS[0]))
    assert run("lock", "shop:shop").code == 0
    application.change(STATUS)
    assert run("lock", "shop:shop").code == 0
    matches, waits = run("check", "shop:shop").out.splitlines()
    assert matches == "table shop matches odm.lock: 2 entities, 3 patterns"
    assert waits == "Order.by_status is not backfilled, by odm.lock: odm backfill shop:shop Order.by_status PLACE"
    done = run("backfill", "shop:shop", "Order.by_status", "shop.db", "--file", "other.lock")
    assert (done.code, "lock" in done.err) == (0, False)
    assert len(run("check", "shop:shop").out.splitlines()) == 2
    done = run("backfill", "shop:shop", "Order.by_status", "shop.db")
    assert "... odm.lock has Order.by_status as backfilled" in done.err
    assert run("check", "shop:shop") == (0, matches + "\n", "")


def test_a_backfill_before_the_lock_is_written_counts_too(run: Run, application: Application, file: LocalFile) -> None:
    application.change((STATUS[1], STATUS[0]))
    run("lock", "shop:shop")
    application.change(STATUS)
    run("backfill", "shop:shop", "Order.by_status", "shop.db")
    assert run("check", "shop:shop").out == "table shop matches odm.lock: 2 entities, 3 patterns\n"


def test_in_both_clouds(run: Run, application: Application, bigtable_emulator: str, dynamodb_local: str) -> None:
    prefix = f"{uuid.uuid4().hex[:12]}-"
    clouds: dict[str, Backend] = {
        f"dynamodb:eu-west-1?endpoint_url={dynamodb_local}&prefix={prefix}": DynamoDB(
            region="eu-west-1", endpoint_url=dynamodb_local
        ),
        f"bigtable:project/instance?endpoint={bigtable_emulator}&prefix={prefix}": Bigtable(
            "project", "instance", endpoint=bigtable_emulator
        ),
    }
    for backend in clouds.values():
        fill(40, backend, prefix)
    application.change(STATUS)
    for place, backend in clouds.items():
        with Store(load_target("shop:shop").table, backend, prefix=prefix) as db:
            db.create()
            done = run("backfill", "shop:shop", "Order.by_status", place)
            assert (done.code, done.err) == (0, "")
            assert done.out == "Order.by_status: 40 items read, 40 written, 0 right already\n"
            assert open_orders(backend, prefix) == 40
            db.drop()


def test_items_that_it_cannot_write(run: Run, application: Application, file: LocalFile) -> None:
    application.change(UNIQUE, IMPORT)
    for summary in ("8 written, 0 right already", "0 written, 8 right already"):
        done = run("backfill", "shop:shop", "Customer.unique_email", "shop.db")
        assert (done.code, done.err) == (1, "")
        taken, counts = done.out.splitlines()
        assert counts == f"Customer.unique_email: 9 items read, {summary}, 1 could not be written"
        assert re.fullmatch(r"not written: CUSTOMER#c[08] \| PROFILE: Customer\.unique_email: .* already has", taken)


def test_a_kill_at_any_moment(run: Run, application: Application, file: LocalFile) -> None:
    command = [sys.executable, "-c", RUN, "backfill", "shop:shop", "Order.by_status", "shop.db", "--rate"]
    state = application.folder / "odm-backfill.state"
    positions = []
    for _ in range(2):
        with subprocess.Popen([*command, "60"], cwd=application.folder, stderr=subprocess.DEVNULL) as running:
            before = state.read_bytes() if state.exists() else b""
            deadline = time.monotonic() + 30
            while (not state.exists() or state.read_bytes() == before) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert running.poll() is None
            running.send_signal(signal.SIGKILL)
        positions.append(json.loads(state.read_text(encoding="utf-8"))["seen"])
    assert positions == sorted(set(positions))
    assert positions[-1] < 300
    assert positions[-1] <= open_orders(file) < 300
    done = run("backfill", "shop:shop", "Order.by_status", "shop.db")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Order.by_status: 300 items read, ")
    assert open_orders(file) == 300
    assert not state.exists()


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_says_how_to_go_on(application: Application, file: LocalFile) -> None:
    command = [sys.executable, "-c", RUN, "backfill", "shop:shop", "Order.by_status", "shop.db", "--rate", "40"]
    with subprocess.Popen(command, cwd=application.folder, stderr=subprocess.PIPE, text=True) as running:
        state = application.folder / "odm-backfill.state"
        # After the first items: an interrupt while pydantic builds a validator is a SchemaError of pydantic-core.
        while not state.exists() or not json.loads(state.read_text(encoding="utf-8"))["seen"]:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate()
    assert running.returncode == 130, err
    assert re.fullmatch(r"\.\.\. \d+ items read; to continue, run the same command again\nodm: interrupted\n", err)


def test_a_terminal_shows_how_far_it_is(application: Application, file: LocalFile) -> None:
    command = [sys.executable, "-c", RUN, "backfill", "shop:shop", "Order.by_status", "shop.db"]
    ours, theirs = os.openpty()
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    with subprocess.Popen(
        command, cwd=application.folder, stderr=theirs, stdout=subprocess.PIPE, env=environment
    ) as running:
        os.close(theirs)
        shown = _all(ours).decode()
        assert running.stdout is not None
        out = running.stdout.read()
    assert running.returncode == 0
    assert "read, parts" in shown
    assert "32/32" in shown
    assert "300 items, 300 written" in shown
    assert out.startswith(b"Order.by_status: 300 items read")


def _all(terminal: int) -> bytes:
    """What a program wrote to a terminal, until it ended."""
    found = b""
    with suppress(OSError):  # the end of a terminal is an error
        while part := os.read(terminal, 1 << 16):
            found += part
    os.close(terminal)
    return found


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("Order.by_state", "shop.db"), "write one of Order, Order.by_status, Order.by_date"),
        (("Order.primary", "shop.db"), "'Order.primary' cannot be filled: write one of Order, "),
        (("Order.", "shop.db"), "'Order.' cannot be filled"),
        (("Oder", "shop.db"), "table 'shop' has no entity 'Oder'; it has Customer, Order"),
        (("Order", "s3:bucket"), "there is no kind of location 's3'"),
        (("Order", "shop.db", "--rate", "0"), "--rate 0: give a number above 0"),
        (("Order", "shop.db", "--rate", "nan"), "--rate nan: give a number above 0"),
        (("Order", "shop.db", "--state", "shop.py"), "shop.py is not the state of a backfill: name another file"),
        (("Order", "shop.db", "--state", "no/where"), "no/where cannot be used (No such file or directory)"),
    ],
    ids=" ".join,
)
def test_what_it_cannot_use(run: Run, file: LocalFile, arguments: tuple[str, ...], says: str) -> None:
    before = sorted(Path().iterdir())
    refused = run("backfill", "shop:shop", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert says in refused.line
    assert sorted(Path().iterdir()) == before


def test_the_state_of_another_backfill(run: Run, application: Application, file: LocalFile) -> None:
    Path("odm-backfill.state").write_text(
        '{"format": 1, "target": "Order", "store": "shop on there", "parts": []}', encoding="utf-8"
    )
    refused = run("backfill", "shop:shop", "Order.by_status", "shop.db")
    assert refused.code == 2
    assert "is the state of a backfill of Order of shop on there: name another file with --state" in refused.line


def test_a_file_that_is_not_there(run: Run, file: LocalFile) -> None:
    refused = run("backfill", "shop:shop", "Order", "none.db")
    assert refused.code == 1
    assert "does not exist" in refused.line
    assert not Path("none.db").exists()
    assert not Path("odm-backfill.state").exists()
