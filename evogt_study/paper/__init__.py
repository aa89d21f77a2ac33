"""Reproduce the paper, and compare each published number with the computed number.

- `published` finds the study of each published number, and judges the computed number.
- `report` reads studies and results, and writes the report and figures.
- `board` compares many methods on problems of other publications.
- `command` defines the command `evogt reproduce`.
"""
