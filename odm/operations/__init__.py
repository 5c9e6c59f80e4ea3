"""From a call to requests: the planner, the operations as generators, the requests a backend sees."""
