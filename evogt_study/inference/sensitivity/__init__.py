"""Sensitivity of a number to parameters, on arrays.

- `layouts`: designs that are known by their points: Saltelli's blocks, Morris' trajectories
- `shares`: what all estimators of Sobol indices return
- `sobol`: Sobol indices by Saltelli's blocks
- `polynomial_chaos`: Sobol indices from any sample
- `morris`: elementary effects
- `failures`: parameters on which missing values depend
"""
