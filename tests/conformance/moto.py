"""What moto is known to answer otherwise than DynamoDB does: name of a test to the reason."""

FAULTS = {
    "test_an_action_that_does_not_fit_what_is_stored_changes_nothing": "moto 5.2 keeps earlier actions",
    "test_actions_that_do_not_fit_what_is_stored": "moto 5.2 does not say which operation of a transaction is wrong",
    "test_beyond_38_digits_is_refused": "moto 5.2 stores sums of more than 38 digits",
    "test_of_list_positions_counts_them_as_they_were": "moto 5.2 counts positions to set after it has removed others",
    "test_parts_of_bytes": "moto 5.2 looks for parts of bytes in their base64 form",
    "test_size_of_an_absent_attribute_compares_false": "moto 5.2 refuses the size of an absent attribute",
    "test_size_of_text_is_in_utf16_units": "moto 5.2 counts characters",
    "test_takes_an_item_just_below_the_limit": "moto 5.2 refuses items over 405,000 bytes; the limit is 409,600",
    "test_values_of_different_types_have_no_order": "moto 5.2 fails to compare text with a number",
}
