"""Commands that only read results.

- `status`: count what is done, failed and missing
- `summary`: statistics as a table
- `verdict`: which label of an axis is best
- `plot`: pictures
- `report`: one page to share
- `export`: a flat table
"""
