"""Known differences of DynamoDB Local from DynamoDB: name of a test → reason."""

FAULTS = {
    "test_actions_that_do_not_fit_what_is_stored": (
        "DynamoDB Local 2.6 does not say which operation of a transaction is wrong"
    ),
    "test_a_transaction_costs_twice": (
        "DynamoDB Local 2.6 reports four times the units in a transaction, DynamoDB twice"
    ),
    "test_a_transaction_doubles_the_units_of_the_table_only": (
        "DynamoDB Local 2.6 reports four times the units in a transaction, and twice those of an index entry"
    ),
    "test_costs_what_it_says": "DynamoDB Local 2.6 reports four times the units in a transaction, DynamoDB twice",
    "test_of_versions_are_units": "DynamoDB Local 2.6 reports four times the units in a transaction, DynamoDB twice",
    "test_what_is_not_there_costs_a_read": "DynamoDB Local 2.6 reports no units of a page or batch without items",
    "test_whose_actions_do_not_fit_what_is_stored": (
        "DynamoDB Local 2.6 does not say which operation of a transaction is wrong"
    ),
}
