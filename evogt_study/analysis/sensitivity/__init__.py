"""Sensitivity of a number to the parameters of a sample.

- `sampled`: the points of a sample, from a result's coordinates
- `estimators`: estimators by name, and what each of them gives
- `sensitivity`: Sobol indices and elementary effects, labelled
"""
