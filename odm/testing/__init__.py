"""Tools to test your application, or a backend.

**An application.** `Clock` sets the time of a store, `Ids` makes the same ids in every run, and
`odm.backends.local.Faults` injects the failures of a cloud service. With pytest there are the fixtures ``odm_memory``,
``odm_file``, ``odm_clock``, ``odm_faults`` and ``odm_bigtable_emulator``: see `odm.testing.plugin`.

**A backend.** The conformance suite tests with pytest what every backend must do. To run it on a backend, write one
test module that imports the suite and defines two fixtures::

    import pytest
    from odm.testing import Capabilities
    from odm.testing.suite import *
    from my_backend import MyBackend


    @pytest.fixture
    def backend():
        return MyBackend("localhost:9000")


    @pytest.fixture
    def capabilities():
        return Capabilities(indexes=False)  # False: features that it does not support

Each test runs sync and async, on `odm.Store` and on `odm.AsyncStore`; a module that defines its own fixture ``mode``
(returning "sync" or "async") runs only in that mode. Each test has its own tables, which are dropped at its end, so
tests may share a service. Tests of a feature whose flag is False are not skipped: they must raise `odm.Unsupported`.

This package is the only part of odm that imports pytest; `Clock` and `Ids` do not need it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odm.testing.capabilities import Capabilities
    from odm.testing.clock import Clock
    from odm.testing.ids import Ids
    from odm.testing.opening import OpenStore
else:
    # Loaded on first use: pytest loads this package with the plugin, also in projects that do not use odm.

    _MODULES = {"Capabilities": "capabilities", "Clock": "clock", "Ids": "ids", "OpenStore": "opening"}

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'odm.testing' has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"odm.testing.{_MODULES[name]}"), name)
        return value


__all__ = ["Capabilities", "Clock", "Ids", "OpenStore"]
