"""From a table that exists to the source of its models.

`facts` has what is known of the table, `infer` makes the design, and `source` the text, which `check` tries on
the items.
"""
