"""The linter: finds problems that a table's models cause in a cloud, before there is data. See docs/lint.md."""
