"""Checks at the first import that no other distribution has installed files into the package ``odm``.

A package index has an unrelated distribution ``odm``, whose package has the same name. If both are installed, their
files are in one folder, and each may have overwritten files of the other.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path


def check(folder: Path) -> None:
    """Check the folder into which this package was installed.

    Raises:
        ImportError: the other distribution is installed in the same folder.
    """
    names = os.listdir(folder)  # noqa: PTH208  # five times faster than iterdir()
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
        found: the file of the imported package. With an editable installation, this package is in its own folder, so
            Python may import the other distribution's ``odm``, but the modules that it lacks from here.

    Raises:
        ImportError: the imported package is that of the other distribution.
    """
    if found is not None and os.path.dirname(found) != os.path.dirname(__file__):  # noqa: PTH120  # faster than a Path
        raise ImportError(
            f"{found} is of another distribution that installs a package called odm, and single-table-odm is in "
            f"{os.path.dirname(__file__)}. Uninstall the other one (pip uninstall odm)"  # noqa: PTH120
        )


check_package(getattr(sys.modules.get("odm"), "__file__", None))
with suppress(OSError):  # not a folder: imported from an archive
    check(Path(__file__).parents[1])
