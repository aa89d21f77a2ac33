"""The problem on the retained space.

- `problem`: data of a parabolic problem as functions of nodes and times, and checks that they agree
- `retained_space`: trial functions, their weighted SVD, truncation
- `system`: matrix and load of the linear terms in any basis; the system in the retained space
- `validation`: errors, norms, energies; the basis on another rule; coefficients without the error of time steps
"""
