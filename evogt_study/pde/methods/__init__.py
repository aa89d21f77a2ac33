"""Methods for partial differential equations that a study can name.

- `evolution`: the paper's method
- `field_evolution`: the same for several fields or nonlinear fluxes
- `p1_fem`: P1 finite elements
- `finite_difference`: finite differences
- `space_time_regression`: time as an additional input, by least squares; collocation in stages of an IMEX scheme
- `solver`: a user function that solves the problem of the study
- `problem_method`: the common part of these methods: a problem with parameters of its own, outputs, measurements
- `declarations`: variables that these methods record, and parameters of the paper's method
- `recording`: scalars, histories, fields and certificates of a solution
- `problem_kind`: problems in formulas, as a kind of problem
"""
