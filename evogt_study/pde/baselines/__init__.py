"""Baselines that the paper sets beside Evo-GTransNet: classical discretisations and global space-time regression.

- `p1_fem`: linear finite elements
- `element_space`: finite element spaces on any domain, as sparse matrices
- `finite_elements`: quadratic finite elements for every term, and the reference made of them
- `references`: references by their names
- `stored_run`: the file of one run, as what errors are measured against
- `stored_solution`: a solution kept as coefficients of features
- `refined`: the method itself, refined, as a reference
- `finite_difference`: finite differences, and the reference made of them
- `space_time_regression`: time as one more input, by least squares
- `sparse_solve`: sparse LU
"""
