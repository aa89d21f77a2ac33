"""A posteriori bounds and estimates of the error of a run, as functions of arrays.

Most of them need no exact solution.

- `certify`: all certificates by name, and which a problem has; the error split by cause; constants of the theory
- `run_bound`: the bound of one run
- `bound`: the bound in the energy norm; the dual norm of a residual, weighted by the diffusion
- `reconstruction`: the run as a function of space and time; whether a grid and times resolve the data
- `reference`: a spectral solution with its own bound, by an integrator of order five
- `problem_data`: functions of a problem on a grid at several times
- `spectral_space`: Gauss grids, and polynomials that diagonalise the Laplacian on them
"""
