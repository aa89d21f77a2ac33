"""Methods that a study can run: the contract, the package's methods, and functions of one's own.

- `problem_kind`: the contract of a kind of problem
- `protocol`: the contract between a method and the sweep
- `registry`: methods by name
- `problem_source`: a problem from formulas or a user's factory
- `problem_method`: the common part of the package's methods
- `integrator_parameters`: parameters of time integrators
- `evolution_parameters`: parameters of the paper's method
- `recordable`: the paper's method: variables that `record` may list, its record, fields on a grid
- `evolution`: the paper's method
- `reference_cache`: a reference that the workers of one machine compute once, under a lock
- `baseline`: the common part of the baselines
- `p1_fem`: P1 finite elements: parameters, size, variables that `record` may list
- `finite_difference`: finite differences, likewise
- `space_time_regression`: global regression in space and time, likewise
- `parameter_formula`: parameters as formulas of others
- `many_methods`: several methods or problems in one study
- `own`: functions of one's own
"""
