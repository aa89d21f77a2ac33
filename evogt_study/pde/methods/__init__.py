"""Methods for partial differential equations that a study can name.

- `variables`: the variables that these methods record
- `problem_kind`: problems in formulas, as a kind of problem
"""
