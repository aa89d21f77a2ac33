"""Common parts of all pictures.

- `style`: sizes, colours, text and formats
- `labels`: short labels, and the long names behind them
- `canvas`: a figure with panels, legend and small print, or somebody else's axes
- `legends`: legends of series
- `arranged`: runs arranged into panels, series and samples
- `boxes`: boxes of letter values
- `points`: runs of a sample, with parameters at its points
"""
