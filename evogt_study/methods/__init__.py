"""What a study can run: the contract, the package's methods, and functions of one's own.

- `protocol`: what a method offers to the sweep
- `registry`: methods by name
- `problem_source`: a problem from formulas or a user's factory
- `problem_method`: what the package's methods have in common
- `integrator_parameters`: parameters of time integrators
- `evolution_parameters`: parameters of the paper's method
- `recordable`: what `record` may list, and the record of a run
- `fields`: solutions on a uniform grid
- `evolution`: the paper's method
- `reference_cache`: a reference that the workers of one machine compute once
- `baselines`: the three baselines with their parameters
- `user_code`: the content of a user's Python file
- `user_function`: a function of one's own as a method
"""
