"""The stores: the interface for applications, sync and async."""
