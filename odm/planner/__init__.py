"""From a query and the schema to the plan that answers it."""
