"""The DynamoDB backend next to its peers: ``python -m benchmarks.dynamodb``.

`answers` are canned, in this process or over HTTP; `encoding` makes bodies alone; `shapes` are pages that are not
orders; `floor` is what no library can beat; `starts` are the programs of fresh processes;
`crowds` ask many times at once.
"""
