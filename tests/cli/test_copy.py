"""`odm copy`: between places named on the command line, killed and run again, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from odm import Store
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile
from odm.cli.locations import store_at
from odm.cli.target import load_target
from odm.cli.usage import BadUsage
from odm.protocol.connection import Backend
from tests.cli.command_line import RUN
from tests.cli.conftest import Application, Run

pytestmark = pytest.mark.one_of(2)


def fill(number: int, backend: Backend, prefix: str = "") -> None:
    """Put customers."""
    found = load_target("shop:shop")
    customer: Any = found.schema.entities["Customer"].cls
    with Store(found.table, backend, prefix=prefix) as db:
        db.create()
        with db.batch() as batch:
            for n in range(number):
                batch.put(customer(customer_id=f"c{n}", email=f"c{n}@example.com"))


def kept(backend: Backend, prefix: str = "") -> list[str]:
    """The ids of customers."""
    with Store(load_target("shop:shop").table, backend, prefix=prefix) as db:
        return sorted(str(vars(one)["customer_id"]) for one in db.scan())


@pytest.fixture
def file(application: Application) -> LocalFile:
    """``shop.db`` with 300 customers."""
    backend = LocalFile(application.folder / "shop.db")
    fill(300, backend)
    return backend


def test_from_file_to_file(run: Run, file: LocalFile) -> None:
    done = run("copy", "shop:shop", "shop.db", "file:other.db?prefix=new-")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "300 items copied",
        "300 items are the same on both sides, by count and checksum of each partition",
    ]
    assert kept(LocalFile("other.db"), "new-") == kept(file)
    assert not Path("odm-copy.state").exists()


def test_to_both_clouds_and_back(run: Run, file: LocalFile, bigtable_emulator: str, dynamodb_local: str) -> None:
    prefix = f"{uuid.uuid4().hex[:12]}-"
    dynamodb = f"dynamodb:eu-west-1?endpoint_url={dynamodb_local}&prefix={prefix}"
    bigtable = f"bigtable:project/instance?endpoint={bigtable_emulator}&prefix={prefix}"
    for source, target in (("shop.db", dynamodb), (dynamodb, bigtable), (bigtable, "back.db")):
        done = run("copy", "shop:shop", source, target, "--json")
        assert done.code == 0
        assert json.loads(done.out) == {
            "items": 300,
            "same": True,
            "verified": {"items": 300, "differences": [], "more": 0},
        }
    assert kept(LocalFile("back.db")) == kept(file)


def test_what_is_there_already(run: Run, file: LocalFile, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(2, LocalFile("other.db"))
    with Store(load_target("shop:shop").table, LocalFile("other.db")) as db:
        customer: Any = load_target("shop:shop").schema.entities["Customer"].cls
        db.put(customer(customer_id="there", email="e"))
    refused = run("copy", "shop:shop", "shop.db", "other.db")
    assert (refused.code, refused.out) == (1, "")
    assert "already has items" in refused.line
    assert "--into-existing" in refused.line
    monkeypatch.setattr(sys, "stdin", None)
    asked = run("copy", "shop:shop", "shop.db", "other.db", "--into-existing")
    assert (asked.code, asked.out) == (1, "")
    assert "Copy into table shop, which has 3 items, " in asked.err
    assert "replace items with the same keys? [y/N] odm: table shop is unchanged" in asked.err
    assert run("copy", "shop:shop", "shop.db", "empty.db", "--into-existing").code == 0  # nothing to replace
    done = run("copy", "shop:shop", "shop.db", "other.db", "--into-existing", "--yes")
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines()[1] == "differs: Customer CUSTOMER#there: 0 in the source, 1 in the target"
    told = run("copy", "shop:shop", "shop.db", "other.db", "--into-existing", "--json", "--yes")
    assert (told.code, json.loads(told.out)["same"]) == (1, False)
    assert run("copy", "shop:shop", "shop.db", "other.db", "--into-existing", "--no-verify", "--yes").code == 0


def test_a_kill_at_any_moment(run: Run, application: Application, file: LocalFile) -> None:
    """It is killed three times, then run to its end."""
    command = [sys.executable, "-c", RUN, "copy", "shop:shop", "shop.db", "other.db", "--rate"]
    state = application.folder / "odm-copy.state"
    positions = []
    for _ in range(3):
        with subprocess.Popen([*command, "60"], cwd=application.folder, stderr=subprocess.DEVNULL) as running:
            before = state.read_bytes() if state.exists() else b""
            deadline = time.monotonic() + 30
            while (not state.exists() or state.read_bytes() == before) and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.4)
            assert running.poll() is None
            running.send_signal(signal.SIGKILL)
        positions.append(sum(items for _, items in json.loads(state.read_text(encoding="utf-8"))["parts"]))
    assert positions == sorted(set(positions))
    assert positions[-1] < 300
    some = kept(LocalFile("other.db"))
    assert positions[-1] <= len(some) < 300
    done = run("copy", "shop:shop", "shop.db", "other.db")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("300 items copied")
    assert kept(LocalFile("other.db")) == kept(file)
    assert not state.exists()


def test_a_terminal_shows_how_far_it_is(application: Application, file: LocalFile) -> None:
    command = [sys.executable, "-c", RUN, "copy", "shop:shop", "shop.db", "other.db"]
    ours, theirs = os.openpty()
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    done = subprocess.run(
        command, cwd=application.folder, stderr=theirs, stdout=subprocess.PIPE, env=environment, check=True
    )
    os.close(theirs)
    shown = os.read(ours, 1 << 20).decode()
    os.close(ours)
    assert "copied, parts" in shown
    assert "4/4" in shown
    assert "300 items" in shown
    assert "600/600" in shown
    assert done.stdout.startswith(b"300 items copied")


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_says_how_to_go_on(application: Application, file: LocalFile) -> None:
    command = [sys.executable, "-c", RUN, "copy", "shop:shop", "shop.db", "other.db", "--rate", "40"]
    state = application.folder / "odm-copy.state"
    with subprocess.Popen(command, cwd=application.folder, stderr=subprocess.PIPE, encoding="utf-8") as running:
        deadline = time.monotonic() + 30
        while not state.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=30)
    assert running.returncode == 130
    assert re.fullmatch(r"\.\.\. \d+ items copied; to continue, run the same command again\nodm: interrupted\n", told)


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ("bigtable:project", "write bigtable:PROJECT/INSTANCE"),
        ("bigtable:/instance", "write bigtable:PROJECT/INSTANCE"),
        ("bigtable:a/b?transactions=yes", "write transactions=on or transactions=off"),
        ("bigtable:a/b?layout=wide", "layout='wide' is not known: write 'row_per_item' or 'row_per_partition'"),
        (
            "dynamodb:eu-west-1?endpoint=x",
            "no option 'endpoint' of such a location; it has prefix=, profile=, endpoint_url=",
        ),
        ("shop.db?region=x", "no option 'region' of such a location; it has prefix="),
        ("shop.db?prefix", "no option"),
        ("dynamo:eu-west-1", "no kind of location 'dynamo': write shop.db, dynamodb:REGION"),
        ("s3:bucket", "for a file of that name write file:s3:bucket"),
    ],
)
def test_places_that_are_none(run: Run, file: LocalFile, place: str, what: str) -> None:
    for arguments in ((place, "other.db"), ("shop.db", place)):
        done = run("copy", "shop:shop", *arguments)
        assert done.code == 2
        assert what in done.line


def test_a_source_that_is_not_there_leaves_nothing_behind(run: Run, application: Application) -> None:
    done = run("copy", "shop:shop", "nowhere.db", "other.db")
    assert done.code == 1
    assert "nowhere.db does not exist" in done.err
    assert not [*application.folder.glob("other.db*"), *application.folder.glob("*.state")]


@pytest.mark.parametrize(
    ("option", "value", "what"),
    [
        ("--rate", "0", "--rate 0: give a number above 0"),
        ("--rate", "nan", "--rate nan: give a number above 0"),
        ("--rate", "inf", "--rate inf: give a number above 0"),
        ("--state", "no/such/folder", "another file with --state"),
        ("--state", ".", "another file with --state"),
        ("--state", "shop.db", "another file with --state"),
    ],
)
def test_options_that_cannot_be_used_make_nothing(
    run: Run, application: Application, file: LocalFile, option: str, value: str, what: str
) -> None:
    done = run("copy", "shop:shop", "shop.db", "other.db", option, value)
    assert done.code == 2
    assert what in done.line
    assert not [*application.folder.glob("other.db*")]


def test_the_state_of_another_copy_makes_nothing(run: Run, application: Application, file: LocalFile) -> None:
    (application.folder / "x.state").write_text('{"format": 1, "stores": ["a", "b"], "parts": []}', encoding="utf-8")
    done = run("copy", "shop:shop", "shop.db", "other.db", "--state", "x.state")
    assert done.code == 2
    assert "x.state is the state of a copy from a to b: name another file with --state" in done.line
    assert not [*application.folder.glob("other.db*")]


def test_places(application: Application) -> None:
    table = load_target("shop:shop").table
    found = store_at("dynamodb:?profile=me&prefix=p-", table)
    assert (repr(found.backend), found.prefix) == ("DynamoDB(profile='me')", "p-")
    assert isinstance(found.backend, DynamoDB)
    found = store_at("bigtable:a/b?app_profile=c&endpoint=localhost:1", table)
    assert repr(found.backend) == repr(Bigtable("a", "b", app_profile="c", endpoint="localhost:1"))
    found = store_at("bigtable:a/b?layout=row_per_partition", table)
    assert repr(found.backend) == repr(Bigtable("a", "b", layout="row_per_partition"))
    found = store_at("bigtable:a/b?transactions=on", table)
    assert repr(found.backend) == repr(Bigtable("a", "b", transactions=True))
    assert repr(store_at("folder/x:y.db", table).backend) == repr(LocalFile("folder/x:y.db"))
    assert repr(store_at(r"C:\shop.db", table).backend) == repr(LocalFile(r"C:\shop.db"))
    assert repr(store_at("file:s3:bucket", table).backend) == repr(LocalFile("s3:bucket"))
    with pytest.raises(BadUsage):
        store_at("bigtable:a/b?profile=x", table)
