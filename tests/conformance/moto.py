"""moto for the suite: its known differences from DynamoDB, and requests one at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any
from unittest.mock import patch

from moto.dynamodb.responses import DynamoHandler

FAULTS = {
    "test_an_action_that_does_not_fit_what_is_stored_changes_nothing": "moto 5.2 keeps earlier actions",
    "test_actions_that_do_not_fit_what_is_stored": "moto 5.2 does not say which operation of a transaction is wrong",
    "test_a_batch_is_a_call_of_each_of_its_patterns": "moto 5.2 reports one unit of an item of any size",
    "test_a_page_ends_at_a_megabyte_of_items": "moto 5.2 reports one unit of a page of any size",
    "test_a_transaction_doubles_the_units_of_the_table_only": "moto 5.2 reports one unit of each index",
    "test_a_write_costs_the_larger_of_two_items": "moto 5.2 reports one unit of an item of any size",
    "test_a_write_pays_for_the_entries_that_it_changes": "moto 5.2 reports no units of indexes",
    "test_atomically_costs_twice_as_much": "moto 5.2 reports no units of an absent item",
    "test_an_equal_item_costs_nothing_in_indexes": "moto 5.2 reports no units of indexes",
    "test_beyond_38_digits_is_refused": "moto 5.2 stores sums of more than 38 digits",
    "test_decimals_are_canonical": "moto 5.2 fails on numbers of 38 digits where a projection is asked for",
    "test_edges_cost_units": "moto 5.2 reports no units of indexes",
    "test_costs_the_units_that_it_says": "moto 5.2 reports half a unit of a consistent read",
    "test_cost_a_write_where_an_entry_comes_changes_or_goes": "moto 5.2 reports no units of indexes",
    "test_of_list_positions_counts_the_previous_ones": "moto 5.2 counts positions to set after it has removed others",
    "test_of_a_sharded_count_costs_what_it_says": "moto 5.2 reports half a unit of a write",
    "test_of_keys_as_they_are": "moto 5.2 reports one unit of items of any size",
    "test_of_versions_are_units": "moto 5.2 reports half a unit of a read",
    "test_parts_of_bytes": "moto 5.2 looks for parts of bytes in their base64 form",
    "test_costs_what_it_says": "moto 5.2 reports half a unit of a read of what is not there",
    "test_pays_for_what_a_filter_drops": "moto 5.2 reports one unit of a page of any size",
    "test_reads_of_an_index_are_reported_separately": "moto 5.2 reports no units of indexes",
    "test_rounds_up_a_page_as_a_whole": "moto 5.2 reports one unit of a page of any size",
    "test_filters_count_them_as_their_defaults": "moto 5.2 takes an absent attribute for NULL",
    "test_hold_for_the_changes_of_an_update": "moto 5.2 recurses into each clause of an update: too deep for 250",
    "test_writes_count_them_as_their_defaults": "moto 5.2 takes an absent attribute for NULL",
    "test_size_of_an_absent_attribute_compares_false": "moto 5.2 refuses the size of an absent attribute",
    "test_size_of_text_is_in_utf16_units": "moto 5.2 counts characters",
    "test_take_a_large_value_over_another": "moto 5.2 adds the new value to the old one and refuses over 405,000 bytes",
    "test_takes_an_item_just_below_the_limit": "moto 5.2 refuses items over 405,000 bytes; the limit is 409,600",
    "test_takes_the_requests_and_units_that_it_says": "moto 5.2 reports half a unit of a read",
    "test_the_units_of_an_item_depend_on_its_size": "moto 5.2 reports one unit of an item of any size",
    "test_values_of_different_types_have_no_order": "moto 5.2 fails to compare text with a number",
    "test_whose_actions_do_not_fit_what_is_stored": "moto 5.2 does not say which operation of a transaction is wrong",
    "test_what_is_not_there_costs_a_read": "moto 5.2 reports one unit of a page of any size",
}
"""Name of a test → reason."""


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Serve one request of DynamoDB at a time, in this process and by moto's server.

    A transaction that moto refuses restores the tables as they were before it, without the writes that other requests
    have done meanwhile.
    """
    lock, answer = Lock(), DynamoHandler.call_action

    def in_turn(handler: DynamoHandler) -> Any:
        with lock:
            return answer(handler)

    with patch.object(DynamoHandler, "call_action", in_turn):
        yield
