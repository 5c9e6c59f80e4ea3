"""Observes requests: events for hooks and the log, and meters."""
