"""Transactions on each backend: in calls, in rounds, and in time."""
