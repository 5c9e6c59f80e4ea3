"""The linter: what a table's models will cost in a cloud, told before there is data in them. See docs/lint.md."""
