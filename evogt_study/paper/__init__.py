"""The reproduction of the paper: published numbers beside computed ones.

- `published`: each published number, the study that computes it, and the printed digits that a value confirms
- `report`: the report in text, Markdown and CSV
- `board`: problems published by others, by many methods
- `run`: all studies run, compared and drawn
- `command`: the command `evogt reproduce`
"""
