"""Designs that other people published: their items are read, and written again, as they are."""
