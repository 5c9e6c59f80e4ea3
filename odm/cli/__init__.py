"""The command line, `odm`: `app` is the entry point, `commands` has the options, each command has its own module."""
