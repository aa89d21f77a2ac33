"""The reproduction of the paper: published numbers beside computed ones.

- `agreement`: how many printed digits a value bears out
- `reproduction`: each published number and the study that computes it
- `figures`: the paper's two figures
- `command`: `evogt reproduce`
- `reproduction_run`: all studies run, judged, drawn
- `reproduction_report`: the report in text, Markdown and CSV
"""
