"""What users declare: entities, their keys, markers of fields, and queries over them."""
