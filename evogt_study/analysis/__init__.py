"""Numbers and tables from a labelled result.  Reads Datasets only.

- `runs`: distinct runs; seeds as sampling units; display names of coordinate values
- `reduce`: kernels over named dimensions, block by block
- `statistics`: `summary`: labelled statistics with their counts
- `comparison`: `compare`, `ranking`: axis values on common seeds
- `verdict`: the best axis value, with its uncertainty, in a sentence
- `orders`: observed orders of convergence, and their table
- `samples`: points of a sample, from the coordinates of a result
- `sensitivity`: share of each parameter in the variance, and its table
- `status_counts`: number of runs by status, their messages, and what is missing
- `export`: one row for each run, as CSV or Parquet; trajectories on a grid, or in contiguous ragged form
- `tables`: rows and pivots in text, Markdown, LaTeX and CSV
- `summary_table`: tables of `evogt summary` and `evogt verdict`; the choice of a pilot
"""
