"""What users declare: entities, their keys, field markers, and queries."""
