"""A posteriori bounds and estimates of the error of a run.  Most certificates need no exact solution.

- `certify` computes certificates by name, constants of the theory, and the spectral reference with its error bound.
- `bound` computes the error bound in the energy norm and the dual norm of a residual.
- `functions` has Gauss grids, polynomials, the data of a problem on a grid, and the reconstruction of a run.
"""
