"""Problems in formulas.

- `table`: their shape in a study file
- `typeset`: the equation of a study for a page
- `mathml`: formulas as MathML
"""
