"""Known differences of Dynoxide from DynamoDB: name of a test → reason."""

FAULTS: dict[str, str] = {}
