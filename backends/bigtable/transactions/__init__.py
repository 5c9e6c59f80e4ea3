"""What transactions leave in rows: locks, the records that decide, and reads of the committed state."""
