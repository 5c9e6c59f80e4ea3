"""Bigtable's requests as values, and how they are sent: encoding, transports, retries, the rows of an answer."""
