"""What the paper sets beside Evo-GTransNet: classical discretisations and global space-time regression.

- `p1_fem`: linear finite elements
- `finite_difference`: finite differences, and the reference made of them
- `space_time_regression`: time as one more input, by least squares
- `sparse_solve`: sparse LU
"""
