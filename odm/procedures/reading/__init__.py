"""Reads: items by key, pages of queries and scans, the shards behind them, and cursors."""
