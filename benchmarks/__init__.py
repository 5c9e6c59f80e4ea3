"""Measurements of the bundled engine next to its peers: ``python -m benchmarks.engine --help``.

`orders` makes the items, and one module a candidate stores them: `ours`, `floors`, `boto`, `pynamo`, `dynamoxy_memory`,
all named in `candidates`. `sections` runs what is asked for, with `timing` for operations, `footprint` for memory and
files, `startup` for imports. `targets` judges the `results`, `report` prints them. The folders `dynamodb` and
`bigtable` measure these backends.
"""
