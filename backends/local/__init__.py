"""The bundled engine: `Memory` in this process, `LocalFile` on a file."""

from odm.backends.local.driver import LocalFile, Memory

__all__ = ["LocalFile", "Memory"]
