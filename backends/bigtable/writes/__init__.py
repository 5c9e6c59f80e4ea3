"""How writes are sent: of one item, a batch of them, or a transaction of several rows."""
