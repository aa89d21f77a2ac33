"""Statistics as tables.

- `numbers`: digits and notation
- `tables`: one row for each point
- `pivot`: labels across
- `summary_table`: the table of `evogt summary`
"""
