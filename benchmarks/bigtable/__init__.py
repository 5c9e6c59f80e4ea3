"""The Bigtable backend next to Google's data client: ``python -m benchmarks.bigtable``."""
