"""Numbers and tables from a labelled result.  Reads Datasets only.

- `runs`: distinct runs and their status; seeds as sampling units; display names of coordinate values
- `statistics`: `summary`: labelled statistics with their counts; kernels over named dimensions, block by block
- `comparison`: `compare`: the values of an axis on common seeds, in one sentence for each setup
- `design`: `Design` of a study: axes, samples and their points, random streams, runs
- `orders`: observed orders of convergence, and their table
- `performance`: performance of estimators, shares of runs, methods over many problems
- `sensitivity`: `sensitivity`, `variance_shares`: shares of parameters and seeds in the variance, and their table
- `export`: one row for each run, as CSV or Parquet; trajectories on a grid, or in contiguous ragged form
- `tables`: statistics in text, Markdown, LaTeX and CSV, by rows or with axes across; the choice of a pilot
"""
