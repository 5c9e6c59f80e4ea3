"""How items stand in rows: row keys, cells, and the three layouts: rows of items, wide rows, rows of other programs."""
