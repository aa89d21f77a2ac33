"""A posteriori bounds and estimates of the error of a run, as functions of arrays.

Most of them need no exact solution.

- `certify`: all certificates by name, and which a problem has; the error split by cause; constants of the theory
- `bound`: the bound in the energy norm, and the bound of one run; the dual norm of a residual
- `reference`: a spectral solution with its own bound, by an integrator of order five
- `functions`: Gauss grids, polynomials, the data of a problem on a grid, and a run as a function of space and time
"""
