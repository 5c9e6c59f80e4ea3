"""Conditions and actions: the nodes, the references and functions that build them, and their meaning."""
