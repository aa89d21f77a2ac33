"""What a study can run: the contract, the package's methods, and functions of one's own.

- `protocol`: what a method offers to the sweep
- `registry`: methods by name
- `problem_source`: a problem from formulas or a user's factory
- `problem_method`: what the package's methods have in common
- `integrator_parameters`: parameters of time integrators
- `evolution_parameters`: parameters of the paper's method
- `recordable`: the paper's method: what `record` may list, its record, fields on a grid
- `evolution`: the paper's method
- `reference_cache`: a reference that the workers of one machine compute once, under a lock
- `baseline`: what the baselines have in common
- `p1_fem`: P1 finite elements: parameters, size, what `record` may list
- `finite_difference`: finite differences, likewise
- `space_time_regression`: global regression in space and time, likewise
- `user_code`: the content of a user's Python file
- `user_function`: a function of one's own as a method
"""
