"""The reproduction of the paper: published numbers beside computed ones.

- `agreement`: number of printed digits that a value confirms
- `published`: each published number and the study that computes it
- `report`: the report in text, Markdown and CSV
- `run`: all studies run, compared and drawn
- `command`: the command `evogt reproduce`
"""
