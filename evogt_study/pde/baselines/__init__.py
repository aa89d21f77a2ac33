"""Methods for comparison with the paper's method, and references for errors.

- `finite_elements`: finite elements on any domain, linear as a baseline, quadratic as a reference; POD-Galerkin
- `finite_difference`: finite differences, and a reference made of them
- `references`: references by name; the method itself, refined; a solution stored as coefficients of features
"""
