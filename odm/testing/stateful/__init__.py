"""A stateful test: random calls on stores and on a model of them, which must agree after every step.

To run it on a backend, write a test module::

    from hypothesis import settings
    from odm import Store
    from odm.testing.stateful import StoreMachine, table


    class OnMine(StoreMachine):
        def open(self, clock):
            store = Store(table, MyBackend("localhost:9000"), clock=clock)
            store.create()
            return [store]


    TestOnMine = OnMine.TestCase
    TestOnMine.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)

Only this package of odm imports Hypothesis.
"""

from odm.testing.stateful.entities import table
from odm.testing.stateful.machine import StoreMachine

__all__ = ["StoreMachine", "table"]
