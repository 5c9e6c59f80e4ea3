"""A short run of `kills`; ``pytest --full --times 10`` makes it longer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import times

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(sys.platform == "win32", reason="there is neither fork nor SIGKILL")
def test_no_acknowledged_write_is_lost_and_none_is_applied_in_part() -> None:
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
