"""What moto is known to answer otherwise than DynamoDB does: name of a test to the reason."""

FAULTS = {
    "test_an_action_that_does_not_fit_what_is_stored_changes_nothing": "moto 5.2 keeps earlier actions",
    "test_actions_that_do_not_fit_what_is_stored": "moto 5.2 does not say which operation of a transaction is wrong",
    "test_a_batch_is_a_call_of_each_of_its_patterns": "moto 5.2 tells one unit of an item of any size",
    "test_a_write_costs_the_larger_of_two_items": "moto 5.2 tells one unit of an item of any size",
    "test_a_write_pays_for_the_entries_that_it_changes": "moto 5.2 tells no units of indexes",
    "test_beyond_38_digits_is_refused": "moto 5.2 stores sums of more than 38 digits",
    "test_edges_cost_units": "moto 5.2 tells no units of indexes",
    "test_of_list_positions_counts_them_as_they_were": "moto 5.2 counts positions to set after it has removed others",
    "test_of_a_sharded_count_costs_what_it_says": "moto 5.2 tells half a unit of a write",
    "test_parts_of_bytes": "moto 5.2 looks for parts of bytes in their base64 form",
    "test_pays_for_what_a_filter_drops": "moto 5.2 tells one unit of a page of any size",
    "test_reads_of_an_index_are_told_apart": "moto 5.2 tells no units of indexes",
    "test_rounds_up_a_page_as_a_whole": "moto 5.2 tells one unit of a page of any size",
    "test_size_of_an_absent_attribute_compares_false": "moto 5.2 refuses the size of an absent attribute",
    "test_size_of_text_is_in_utf16_units": "moto 5.2 counts characters",
    "test_takes_an_item_just_below_the_limit": "moto 5.2 refuses items over 405,000 bytes; the limit is 409,600",
    "test_tells_the_units_of_items_by_their_size": "moto 5.2 tells one unit of an item of any size",
    "test_values_of_different_types_have_no_order": "moto 5.2 fails to compare text with a number",
    "test_whose_actions_do_not_fit_what_is_stored": "moto 5.2 does not say which operation of a transaction is wrong",
    "test_what_is_not_there_costs_a_read": "moto 5.2 tells one unit of a page of any size",
}
