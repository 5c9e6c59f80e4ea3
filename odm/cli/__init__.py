"""The command line, `odm`: `app` is where it starts, `commands` says what it takes, and each command has a folder."""
