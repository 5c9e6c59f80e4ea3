"""Makes the plan that answers a query, from the query and the schema."""
