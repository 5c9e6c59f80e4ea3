"""Many writers of one item."""
