"""Methods for comparison with the paper's method, and references for errors.

- `element_space`: finite element spaces on any domain, as sparse matrices
- `finite_elements`: finite elements, linear as a baseline, quadratic as a reference
- `finite_difference`: finite differences, and a reference made of them
- `space_time_regression`: time as an additional input, by least squares
- `pod_galerkin`: a reduced basis from snapshots of finite elements
- `discrete_time_rfm`: collocation in the stages of an IMEX Runge-Kutta scheme
- `references`: references by name; the method itself, refined
- `stored_solution`: a solution stored as coefficients of features
"""
