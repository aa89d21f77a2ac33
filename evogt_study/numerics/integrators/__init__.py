"""Time integrators of the retained system, by name: one file a scheme.

- `implicit_midpoint`: the implicit midpoint rule
- `stabilized_semi_implicit`: the stabilised step for gradient flows
"""
