"""A posteriori bounds and estimates of the error of a run.

Most certificates need no exact solution.

- `certify` computes certificates by name, splits the error by cause, and computes constants of the theory.
- `bound` computes the error bound in the energy norm and the dual norm of a residual.
- `reference` computes a spectral solution and its error bound with an integrator of order five.
- `functions` has Gauss grids, polynomials, the data of a problem on a grid, and the reconstruction of a run.
"""
