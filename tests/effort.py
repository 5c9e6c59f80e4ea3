"""How thorough the tests are: quick by default, thorough with ``--full``, even more with ``--full --times 50``.

The default run is for development; CI runs both. The differences:

* properties and random walks try fewer examples and steps (`times`);
* each test of the conformance suite runs either sync or async on each backend (tests/conformance/conftest.py);
* a test that runs on several services skips moto if DynamoDB Local is installed (tests/conftest.py);
* tests marked ``full`` run only with ``--full``: they take long, and shorter tests next to them check the same.
"""

import os
from typing import Final

FULL: Final = "ODM_TESTS_FULL"
"""Environment variable with the value of ``--times``, set by ``--full``; subprocesses and workers inherit it."""


def full() -> bool:
    """Whether ``--full`` was given."""
    return FULL in os.environ


def times(light: int, many: int) -> int:
    """How many examples or steps to try.

    Args:
        light: by default.
        many: with ``--full``, multiplied by ``--times``.
    """
    return many * int(os.environ[FULL]) if full() else light
