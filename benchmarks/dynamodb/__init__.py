"""Measurements of the DynamoDB backend next to its peers: ``python -m benchmarks.dynamodb --help``.

`pages` says what is stored and read, and `answers` gives it out as DynamoDB would, in this process or over HTTP. One
module a library reaches it, each with contenders: `ours`, `boto`, `pynamo`, `dynamoxy_http`, `pydynox_http`; `floor` is
what none can beat. `encoding` makes bodies alone. `races` says who runs against whom, `verdicts` has the targets,
`report` prints.
"""
