"""Processes that move money in one table while some are killed and answers are lost: `python -m tests.bank`."""
