"""What each write means: its intent, its checks, and its operation for a stored item."""
