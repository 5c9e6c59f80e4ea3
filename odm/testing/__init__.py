"""For tests: of your application, and of a backend.

**Of an application.** `Clock` moves the time of a store, `Ids` makes the same ids in every run, and
`odm.backends.local.Faults` does to the application what a cloud may do. With pytest there are the fixtures
``odm_memory``, ``odm_file``, ``odm_clock`` and ``odm_faults``: see `odm.testing.plugin`.

**Of a backend**: the conformance suite, what every backend must do, as pytest tests. A backend joins with one test
module, which imports the suite and gives two fixtures::

    import pytest
    from odm.testing import Capabilities
    from odm.testing.suite import *
    from my_backend import MyBackend


    @pytest.fixture
    def backend():
        return MyBackend("localhost:9000")


    @pytest.fixture
    def capabilities():
        return Capabilities(indexes=False)  # what it refuses, so far

Each test is written once and runs sync and async, on `odm.Store` and on `odm.AsyncStore`; a module that defines a
fixture ``mode`` of its own (returning "sync" or "async") runs in that one alone. Each test works on tables of its
own, which are dropped at its end, so tests may share a service. What a flag denies is not skipped: the tests that need
it pass by raising `odm.Unsupported`.

This package is the only part of odm that imports pytest, and `Clock` and `Ids` need none.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odm.testing.capabilities import Capabilities
    from odm.testing.clock import Clock
    from odm.testing.ids import Ids
    from odm.testing.opening import OpenStore
else:
    # Loaded at the first use: pytest loads this package with the plugin, in projects that may not even use odm.

    _MODULES = {"Capabilities": "capabilities", "Clock": "clock", "Ids": "ids", "OpenStore": "opening"}

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'odm.testing' has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"odm.testing.{_MODULES[name]}"), name)
        return value


__all__ = ["Capabilities", "Clock", "Ids", "OpenStore"]
