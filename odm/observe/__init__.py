"""What is seen of requests from outside: events for hooks and the log, and meters."""
