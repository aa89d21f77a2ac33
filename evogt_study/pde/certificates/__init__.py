"""Statements of a run on its own error, without the exact solution where that can be had; pure functions of arrays.

- `tensor_grid`: Gauss grids, and matrices applied along one direction after the other
- `spectral_space`: polynomials in a basis in which the Laplacian is diagonal
- `problem_data`: a problem's functions on a grid at several times
- `reconstruction`: the run as a function of space and time
- `residual_norm`: the dual norm of a residual, weighted by the diffusion, by conjugate gradients
- `bound`: the bound in the energy norm
- `fineness`: whether the data have structure that grid or times do not see
- `radau`: an integrator of order five, for what is free of the error of time steps
- `reference`: a spectral solution with a bound of its own
- `run_functions`: a run's features on a grid
- `run_bound`: the bound of one run
- `budget`: the error split by its causes
- `constants`: coercivity, mass, quadrature residual, midpoint rule
- `certify`: all of it by name
- `applicability`: which of it a problem has
"""
