"""The PDE method of the paper and what belongs to it, registered as any other package would be.

- `command`: `evogt advise`
- `problems`: problems in formulas
- `methods`: methods that a study can name
"""
