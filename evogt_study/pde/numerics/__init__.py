"""Arrays, quadrature rules and time steps.

- `arrays`: the array type, and sparse linear systems
- `quadrature`: rules with positive weights
- `time_grid`: time steps, observed steps, the trajectory
"""
