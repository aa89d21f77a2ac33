"""Reproduction of the paper, with published and computed numbers side by side.

- `published`: each published number, the study that computes it, and the printed digits that a value confirms
- `report`: reads studies and results, compares them, and writes the report and figures
- `board`: comparison of many methods on problems of other publications
- `command`: the command `evogt reproduce`
"""
