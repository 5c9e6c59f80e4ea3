"""odm next to its peers: ``python -m benchmarks.engine``, ``.dynamodb`` and ``.bigtable``; ``--help`` lists options.

A `contender` is one of the `libraries` on one of the `services`, loaded with one of the `pages`. `timing` runs their
calls in turns; `command` has the options, and `report` the tables and targets. `path` follows one call through odm.
"""
