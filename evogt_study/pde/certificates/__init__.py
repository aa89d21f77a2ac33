"""A posteriori bounds and estimates of the error of a run, as functions of arrays.

Most of them need no exact solution.

- `certify`: all certificates by name, and which a problem has; the error split by cause; constants of the theory
- `bound`: the bound in the energy norm, and the bound of one run; the dual norm of a residual
- `reconstruction`: the run as a function of space and time; whether a grid and times resolve the data
- `reference`: a spectral solution with its own bound, by an integrator of order five
- `spectral_space`: Gauss grids, polynomials that diagonalise the Laplacian, and the data of a problem on a grid
"""
