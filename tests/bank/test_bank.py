"""A short run of `tests.bank`; `python -m tests.bank --seconds 300` is the long one."""

import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.bank.run import run
from tests.bank.worker import Settings
from tests.effort import full, times

pytestmark = pytest.mark.slow


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_money_stays_the_same_while_processes_are_killed_and_answers_lost(
    bigtable_emulator: str, tmp_path: Path
) -> None:
    settings = Settings(
        bigtable_emulator,
        f"b{uuid4().hex[:8]}-",
        seconds=times(4, 15),
        processes=4 if full() else 2,
        kill_after=2.0,
        abort_after=0.5,
    )
    report = run(settings, tmp_path)
    assert report.faults == [], report
    assert report.counted["committed"] > 0
    assert report.counted["reads"] > 0
    assert report.kills > 0
