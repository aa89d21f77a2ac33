"""Galerkin system of a parabolic problem on the retained space.

- `problem` has the data of a problem as functions of nodes and times, and checks these data.
- `retained_space` computes trial functions, their weighted SVD and its truncation.
- `system` assembles matrix and load of the linear terms, and the system in the retained space.
- `validation` measures errors, norms, energies and defects, and solves the system without time-step error.
"""
