"""Galerkin system of a parabolic problem on the retained space.

- `problem` has the data of a problem as functions of nodes and times, and checks these data.
- `system` computes the retained space, and assembles the system in the retained space or in finite elements.
- `validation` measures errors, norms, energies and defects, and solves the system without time-step error.
"""
