"""The bundled engine: `Memory` in this process, `LocalFile` in a file, `Faults` for the tests of applications."""

from odm.backends.local.driver import LocalFile, Memory
from odm.backends.local.faults import Faults, Happened
from odm.backends.local.upkeep import Compaction

__all__ = ["Compaction", "Faults", "Happened", "LocalFile", "Memory"]
