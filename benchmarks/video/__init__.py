"""The page of a video on each backend: in calls, in bytes, and in time."""
