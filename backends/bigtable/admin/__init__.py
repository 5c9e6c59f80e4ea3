"""Tables: families, garbage collection, backups, and what differs from the models."""
