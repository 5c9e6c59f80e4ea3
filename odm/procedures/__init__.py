"""What each call of a store does, as a generator of requests without I/O."""
