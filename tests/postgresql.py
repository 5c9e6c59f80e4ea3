"""Finds, installs and runs PostgreSQL, for the tests and for `.ci/run`: see `tests.servers`.

It runs in a temporary folder, without fsync. It refuses to run as root, so root runs it as the user nobody.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests import servers

VARIABLE = "ODM_POSTGRESQL"
INSTALLED = Path("/usr/lib/postgresql")
"""Where Debian installs the programs of each version; only a few of them are on PATH."""
PROGRAMS = ("initdb", "postgres")
QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=30")


def find(environ: Mapping[str, str]) -> Path:
    """The folder of the programs: that in the environment variable, otherwise on PATH, or the newest installed one.

    Raises:
        Missing: PostgreSQL was not found, or the variable names a folder without it.
    """
    if named := environ.get(VARIABLE):
        if _is_complete(Path(named)):
            return Path(named)
        raise servers.Missing(f"{VARIABLE}={named} is not a folder with the programs {' and '.join(PROGRAMS)}")
    on_path = shutil.which("initdb", path=environ.get("PATH"))
    versions = sorted(INSTALLED.glob("[0-9]*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    folders = [*([] if on_path is None else [Path(on_path).resolve().parent]), *versions]
    if folder := next(filter(_is_complete, folders), None):
        return folder
    raise servers.Missing(
        "no PostgreSQL: install it, as with `apt-get install postgresql`, or set "
        f"{VARIABLE} to the folder of its programs, which has initdb"
    )


def _is_complete(folder: Path) -> bool:
    return all(shutil.which(str(folder / name)) for name in PROGRAMS)


def fetch() -> None:
    """Install PostgreSQL with apt-get."""
    servers.installed("postgresql")


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run PostgreSQL, empty, on a free port of the loopback interface during the block; yields its URL."""
    user = "nobody" if os.geteuid() == 0 else ""
    with tempfile.TemporaryDirectory(prefix="odm-postgresql-") as home:
        if user:
            shutil.chown(home, user)
        data = Path(home, "data")
        made = [str(folder / "initdb"), "-D", str(data), "--no-sync", "--auth=trust", "--username=odm"]
        subprocess.run(
            [*made, "--encoding=UTF8", "--locale=C"], check=True, stdout=subprocess.DEVNULL, user=user or None, cwd=home
        )
        settings = ("listen_addresses=127.0.0.1", "unix_socket_directories=", *QUICK)
        options = [part for setting in settings for part in ("-c", setting)]
        command = [str(folder / "postgres"), "-D", str(data), *options, "-p"]
        with servers.running_on_port("PostgreSQL", lambda port: [*command, str(port)], _answers, user) as port:
            yield f"postgresql+psycopg://odm@127.0.0.1:{port}/postgres"


def _answers(port: int) -> bool:
    import psycopg  # only the tests have it: `find` runs before they are installed

    try:
        psycopg.connect(host="127.0.0.1", port=port, user="odm", dbname="postgres").close()
    except psycopg.OperationalError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(servers.main(find, fetch, sys.argv[1:]))
