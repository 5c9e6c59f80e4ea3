"""What the core asks of a backend: requests, the contract of a connection, limits, and how requests are run."""
