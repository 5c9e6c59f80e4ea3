"""The conformance suite: what every backend must do, as pytest tests that ship with odm.

A backend joins with one test module, which imports the suite and gives two fixtures::

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

Each test is written once and runs in both colours, on `odm.Store` and on `odm.AsyncStore`; a module that defines a
fixture ``colour`` of its own (returning "sync" or "async") runs in that one alone. Each test works on tables of its
own, which are dropped at its end, so tests may share a service. What a flag denies is not skipped: the tests that need
it pass by raising `odm.Unsupported`.

This is the only part of odm that imports pytest.
"""

import pytest

pytest.register_assert_rewrite("odm.testing.suite")

from odm.testing.capabilities import Capabilities  # noqa: E402  # the asserts of the suite are to explain themselves

__all__ = ["Capabilities"]
