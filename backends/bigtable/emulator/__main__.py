"""``python -m odm.backends.bigtable.emulator``: serves other programs until it is interrupted."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from odm import OdmError
from odm.backends.bigtable.emulator import VARIABLE, Emulator


def main(arguments: Sequence[str]) -> int:
    """Run the emulator. Returns the exit code."""
    parser = argparse.ArgumentParser("python -m odm.backends.bigtable.emulator", description="An emulator of Bigtable.")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8086, help="the port; 0: any that is free (%(default)s)")
    parser.add_argument("--file", help="keep the data in this file; without it, in memory only")
    options = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with (
            suppress(KeyboardInterrupt),
            Emulator(host=options.host, port=options.port, file=options.file) as running,
        ):
            print(f"The Bigtable emulator listens: export {VARIABLE}={running.address}", flush=True)  # noqa: T201
            while True:
                time.sleep(1)
    except OdmError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
