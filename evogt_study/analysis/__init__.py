"""From labelled results to statistics, tables, pictures and pages.

- `blocks`: kernels over labelled dimensions, block by block
- `labels`: labels of an axis as a person names them
- `statistics`: labelled statistics with their counts of runs
- `comparison`: labels compared on common seeds
- `orders`: observed orders of convergence
- `distinct`: points of a study to distinct runs, which count once
- `completeness`: what became of the runs
- `export`: one row a run
- `accessor`: `evs.open` and `ds.evogt`
- `tables`: statistics as text, Markdown, LaTeX, CSV
- `plots`: pictures
- `report`: one page to share
"""
