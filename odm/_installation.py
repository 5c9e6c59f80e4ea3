"""Checks at the first import that no other distribution has installed files into the package ``odm``.

A package index has an unrelated distribution called ``odm``, whose package has the same name. An installer that has
installed both has put the files of both into one folder, where either may have overwritten the other.
"""

import os
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


with suppress(OSError):  # not a folder: imported from an archive
    check(Path(__file__).parents[1])
