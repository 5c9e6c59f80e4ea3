"""Stored types: how the values of one Python type are stored, compared and read back."""
