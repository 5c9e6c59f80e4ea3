"""The command line, `odm`: `app` is the entry point, `commands` has the options, each command has its own module."""

import odm._installation  # noqa: F401  # the command line names a wrong installation before it imports anything
