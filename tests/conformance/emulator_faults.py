"""What Google's Bigtable emulator does otherwise than the service."""

import os
from collections.abc import Mapping
from typing import Final

from tests import emulator

_LAST: Final = "the emulator keeps the last value of an aggregate family min or max, not the least or the greatest"

_FAULTS: Final[Mapping[str, str]] = {
    "test_a_lesser_value_changes_only_the_rest": _LAST,
    "test_an_upsert_begins_with_the_first_value": _LAST,
    "test_a_condition_precedes_an_added_value": _LAST,
    "test_merges_keep_the_least_and_the_greatest_value": _LAST,
    "test_merges_keep_the_extreme_of_a_rival": _LAST,
}

FAULTS: Final[Mapping[str, str]] = {} if emulator.is_own(os.environ) else _FAULTS
"""The tests that fail on the emulator of this run, each with the reason."""
