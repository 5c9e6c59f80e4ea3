"""What an operator runs: scrubs, which remove what interrupted writers left, and the removal of many rows."""
