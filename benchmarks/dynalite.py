"""Installs dynalite with npm into a folder next to this file, and runs it."""

import socket
import subprocess
import time
from pathlib import Path
from shutil import which
from typing import Final

from attrs import frozen

from benchmarks.candidates import Unavailable

VERSION: Final = "4.0.0"
_CACHE: Final = Path(__file__).parent / ".cache" / f"dynalite-{VERSION}"
_PROGRAM: Final = _CACHE / "node_modules" / "dynalite" / "cli.js"
START_SECONDS: Final = 20


@frozen
class Server:
    """A running dynalite."""

    process: subprocess.Popen[bytes]
    url: str

    def stop(self) -> None:
        """End it, with what it holds."""
        self.process.terminate()
        self.process.wait()


def start() -> Server:
    """Run one on a free port of the loopback, installed if it is not there yet.

    Raises:
        Unavailable: node or npm is missing, the package cannot be had, or it does not start.
    """
    program = _install()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["node", str(program), "--host", "127.0.0.1", "--port", str(port), "--createTableMs", "0"]
    server = Server(subprocess.Popen(command, stdout=subprocess.DEVNULL), f"http://127.0.0.1:{port}")
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return server
    server.stop()
    raise Unavailable("dynalite does not start")


def installed() -> bool:
    """Whether it is there already."""
    return _PROGRAM.exists()


def _install() -> Path:
    if installed():
        return _PROGRAM
    if which("npm") is None or which("node") is None:
        raise Unavailable("node and npm are not installed")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(_CACHE), f"dynalite@{VERSION}"]
    _CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not installed():
        raise Unavailable(f"npm cannot install dynalite: {done.stderr.strip()[-200:]}")
    return _PROGRAM
