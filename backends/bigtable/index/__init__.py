"""Secondary indexes: the keys of entries, writes that keep them consistent with the items, queries, and repairs."""
