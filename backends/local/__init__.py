"""The bundled engine: `Memory` in this process, `LocalFile` in a file, `Faults` for the tests of applications."""

from typing import TYPE_CHECKING

from odm.backends.local.driver import LocalFile, Memory

if TYPE_CHECKING:
    from odm.backends.local.faults import Faults, Happened
    from odm.backends.local.upkeep import Compaction
else:
    # Imported at their first use: few programs need them, and Compaction imports sqlite3.
    _MODULES = {"Compaction": "upkeep", "Faults": "faults", "Happened": "faults"}

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = ["Compaction", "Faults", "Happened", "LocalFile", "Memory"]
