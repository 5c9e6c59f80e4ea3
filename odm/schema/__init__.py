"""Compile declarations to a key schema: once, checked and frozen."""
