"""`python -m tests.bank --seconds 300`: the long run, on an emulator of its own."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests import emulator
from tests.bank.run import run
from tests.bank.worker import Settings

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Move money while processes are killed and answers are lost.")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--tellers", type=int, default=4, help="threads of each process")
    parser.add_argument("--kill-after", type=float, default=4.0, help="the most seconds between two kills")
    parser.add_argument("--loses", type=float, default=0.005, help="the share of calls that are lost or late")
    parser.add_argument("--abort-after", type=float, default=3.0)
    parser.add_argument("--sync", action="store_true", help="no process is async")
    options = vars(parser.parse_args())
    asynchronous = not options.pop("sync")
    with emulator.running(emulator.find(os.environ)) as address, tempfile.TemporaryDirectory() as folder:
        report = run(Settings(address, asynchronous=asynchronous, **options), Path(folder))
    sys.stdout.write(f"{report}\n")
    sys.exit(bool(report.faults))
