"""Declare parameters, variables and records.

- `values` converts values to canonical form, JSON, hashes and coordinates.
- `parameters` declares parameters, also by the fields of dataclasses.
- `variables` declares variables, run metadata, reserved names and accuracy warnings.
- `records` defines cases and the records of their runs.
"""
