"""Items that follow others: companions, and the pipeline that commits a write with them."""
