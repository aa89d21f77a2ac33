"""The problem on the retained space.

- `problem`: data of a parabolic problem as functions of nodes and times
- `problem_checks`: checks that the data of a problem agree
- `retained_space`: trial functions, their weighted SVD, truncation
- `assembly`: matrix and load of the linear terms in any basis
- `system`: the system in the retained space
- `flux_system`: the Galerkin system of fields with nonlinear fluxes
- `validation`: relative errors, norms, energies
- `cross_grid`: the retained basis on another quadrature rule
- `coefficient_reference`: final coefficients without the error of time steps
"""
