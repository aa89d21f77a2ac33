"""Statistics as tables.

- `pilot_choice`: what a pilot has chosen
- `pilot_distance`: how far a pilot's choice is from the one that knows the answer
- `numbers`: digits and notation
- `tables`: one row for each point
- `pivot`: labels across
- `verdict_table`: a verdict as text
- `summary_table`: the table of `evogt summary`
- `sensitivity_table`: parameters by their share in a variance
- `orders_table`: observed orders, row by row
"""
