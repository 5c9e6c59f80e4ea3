"""How items stand in tables: keys and attributes, loading, and tables that other programs write, too."""
