"""From declarations to a key schema: compiled once, frozen, checked."""
