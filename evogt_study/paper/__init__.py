"""Reproduction of the paper, with published and computed numbers side by side.

- `published`: each published number, the study that computes it, and the printed digits that a value confirms
- `report`: the report in text, Markdown and CSV
- `board`: comparison of many methods on problems of other publications
- `run`: reads studies and results, compares them and draws figures
- `command`: the command `evogt reproduce`
"""
