"""The suite on the engine in memory with all of its options for tests, but no injected faults.

Pages have one item, or no item where a filter drops it, as on cloud services.
"""

import pytest

from odm.backends.local import Faults, Memory
from odm.testing import Capabilities, Clock
from odm.testing.suite import *  # noqa: F403  # pytest collects its classes and fixtures

del TestBackfill, TestBackfillCompanions  # noqa: F821  # what happens between two requests depends on the size of a page

pytestmark = [pytest.mark.one_of(2), pytest.mark.slow]  # without these options, the engine runs the whole suite


@pytest.fixture
def backend() -> Memory:
    faults = Faults()
    faults.delay("any", 0)
    faults.throttle("any", after=1_000_000)
    return Memory(clock=Clock(), index_lag=1e-9, faults=faults, page_bytes=1)


@pytest.fixture
def capabilities() -> Capabilities:
    of_reads = (
        "a_page_ends_at_a_megabyte_of_items",
        "are_whole_where_the_requests_suffice",
        "end_early_and_together_have_every_result",
        "counts_calls_by_pattern",
        "of_keys_as_they_are",
        "rounds_up_a_page_as_a_whole",
        "pays_for_what_a_filter_drops",
    )
    of_patterns = (
        "are_one_request_each_and_cost_what_they_hold",
        "cost_what_they_say",
        "it_reads_no_more_than_it_may_need",
        "it_reports_its_reads",
        "of_versions_are_requests",
        "of_versions_are_units",
        "one_period_needs_one_request",
        "read_only_the_partitions_of_each_table",
        "removing_a_node_costs_its_edges",
    )
    tests = (*of_reads, *of_patterns)
    return Capabilities(faults={f"test_{name}": "a page of one item is a call, and is rounded up" for name in tests})
