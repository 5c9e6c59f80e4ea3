"""Checks at the first import that no other distribution has installed files into the package ``odm``.

A package index has an unrelated distribution called ``odm``, whose package has the same name. An installer that has
installed both has put the files of both into one folder, where either may have overwritten the other.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path


def check(folder: Path) -> None:
    """Check the folder into which this package was installed.

    Raises:
        ImportError: the other distribution is there too.
    """
    names = os.listdir(folder)  # noqa: PTH208  # a fifth of the time of iterdir()
    other = next((name for name in names if name.startswith("odm-") and name.endswith("-info")), None)
    if other is not None:
        name = other.rpartition(".")[0]
        raise ImportError(
            f"{folder} has {name} and single-table-odm, which both install a package called odm. Uninstall both "
            "(pip uninstall odm single-table-odm), then install single-table-odm again"
        )


def check_package(found: str | None) -> None:
    """Check which package ``odm`` was imported.

    Args:
        found: its file. An editable installation leaves this package in its own folder, so that Python finds the one
            of the other distribution first, and the modules that only this one has here.

    Raises:
        ImportError: it is the package of the other distribution.
    """
    if found is not None and os.path.dirname(found) != os.path.dirname(__file__):  # noqa: PTH120  # no Path is made
        raise ImportError(
            f"{found} is of another distribution that installs a package called odm, and single-table-odm is in "
            f"{os.path.dirname(__file__)}. Uninstall the other one (pip uninstall odm)"  # noqa: PTH120
        )


check_package(getattr(sys.modules.get("odm"), "__file__", None))
with suppress(OSError):  # not a folder: imported from an archive
    check(Path(__file__).parents[1])
