"""Methods for partial differential equations that a study can name.

- `evolution`: the paper's method, for one or several fields
- `p1_fem`: P1 finite elements, for one or several fields
- `finite_difference`: finite differences
- `space_time_regression`: least squares in space and time, and collocation in the stages of an IMEX scheme
- `problem_method`: the common part of these methods, and user functions that solve the problem of the study
- `declarations`: variables that these methods record, and parameters of the paper's method
- `problem_kind`: formula problems as a kind of problem
"""
