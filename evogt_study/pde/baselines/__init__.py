"""Methods for comparison with the paper's method, and references for errors.

- `finite_elements`: linear elements as a baseline, quadratic elements as a reference, and POD-Galerkin
- `finite_difference`: finite differences as a baseline and as a reference
- `references`: references by name, such as a refined run of the method or a stored solution
"""
