"""One module a library, each with contenders: they reach whatever service is given to them."""
