"""Methods for comparison with the paper's method, and references for errors.

- `finite_elements` solves by linear elements (a baseline), quadratic elements (a reference) and POD-Galerkin.
- `finite_difference` solves by finite differences, as a baseline and as a reference.
- `references` has references by name, such as a refined run of the method or a stored solution.
"""
