"""Compute statistics and tables from the Dataset of a result.

- `runs` reads the design of a study, its distinct runs, their status and the sampling units.
- `statistics` computes statistics over named dimensions, block by block (`summary`), and observed orders.
- `comparison` compares the values of an axis on common seeds (`compare`).
- `performance` measures the performance of estimators and compares methods over many problems.
- `sensitivity` computes the shares of parameters and seeds in the variance.
- `export` writes one row for each run, and returns trajectories on a grid or in ragged form.
- `tables` formats all statistics as text, Markdown, LaTeX and CSV.
"""
