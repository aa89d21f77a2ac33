"""From labelled results to statistics, tables, pictures and pages.

- `blocks`: kernels over labelled dimensions, block by block
- `labels`: labels of an axis as a person names them
- `units`: what was drawn: seeds, whose values at several points belong together
- `notes`: doubts about an interval of the mean
- `statistics`: labelled statistics with their counts
- `comparison`: labels compared on common seeds
- `verdict`: which label is best, and how sure that is
- `verdict_words`: a verdict in a sentence
- `beyond_the_mean`: shares of a variance
- `orders`: observed orders of convergence
- `sensitivity`: shares of parameters in the variance of a number
- `distinct`: points of a study to distinct runs, which count once
- `completeness`: what became of the runs
- `export`: one row a run
- `accessor`: `evs.open` and `ds.evogt`
- `tables`: statistics as text, Markdown, LaTeX, CSV
- `plots`: pictures
- `report`: one page to share
"""
