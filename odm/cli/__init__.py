"""The command line, `odm`: `app` is the entry point, `commands` declares the options, and each command has its own module."""
