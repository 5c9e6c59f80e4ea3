"""The stores: what an application calls, blocking and for asyncio."""
