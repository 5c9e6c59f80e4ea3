"""A short run of `kills`; ``pytest --full --times 10`` makes it a long one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import times

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(sys.platform == "win32", reason="there is neither fork nor SIGKILL")
def test_nothing_acknowledged_is_lost_and_nothing_is_half_written() -> None:
    kills = str(times(20, 40))
    done = subprocess.run(
        [sys.executable, "-m", "tests.backends.local.kills", "--kills", kills],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr  # the output begins with the seed
    assert f"{kills} kills, during: " in done.stdout
