"""How much the tests try: little by default, much with ``pytest --full``, more with ``pytest --full --times 50``.

The default run is for people who wait for it. CI runs it and then ``--full --rest``: a share of what the default run
leaves out. A release runs ``--full`` alone, which takes hours. What differs (tests/selection.py chooses):

* properties and random walks try fewer examples and steps (`times`);
* the conformance suite runs once on each backend, sync or async, not in both;
* for DynamoDB, that is one of its stand-ins: Dynoxide if it is installed;
* a test that runs on several services leaves out moto where DynamoDB Local is installed;
* of tests marked ``one_of(3)``, which are many of a kind, the checksums of their names choose a third;
  of those marked ``one_of(9, 2)``, a ninth, and a half with ``--full``;
* tests marked ``full`` run only with ``--full``: each takes long, and shows what shorter ones next to it show too;
* modules and tests marked ``slow`` run only with ``--full``, or where the command line names files or folders; with
  ``--full --rest`` they run whole. They try what goes wrong (stops, races, lost answers, hostile servers), laws over
  random values, options of backends, and other programs;
* with ``--full --rest``, properties and random walks try a fourth of the examples and steps that they try with
  ``--full``, and a fourth of the tests with parameters run, a seventh in the conformance suite.
"""

import os
from typing import Final

FULL: Final = "ODM_TESTS_FULL"
"""Environment variable with the factor of ``--times``, set by ``--full``; subprocesses and workers inherit it."""

REST: Final = "ODM_TESTS_REST"
"""Environment variable that ``--rest`` sets."""


WHOLE: Final = "ODM_TESTS_WHOLE"
"""Environment variable that is set if the command line names no files; workers inherit it."""


def whole() -> bool:
    """Whether all files run, and not those that the command line names."""
    return WHOLE in os.environ


def full() -> bool:
    """Whether ``--full`` was given."""
    return FULL in os.environ


def times(light: int, many: int) -> int:
    """How many examples or steps to try.

    Args:
        light: by default.
        many: with ``--full``, multiplied by ``--times``; with ``--rest``, a fourth of it, or ``light`` if that is more.
    """
    if not full():
        return light
    tries = many * int(os.environ[FULL])
    return max(light, tries // 3) if REST in os.environ else tries
