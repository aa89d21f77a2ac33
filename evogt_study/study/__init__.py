"""Define studies, compute their cases and plan the runs.

- `model` defines `StudyModel`, the pydantic model of a study, and reads and writes TOML.
- `parameter_values` reads and computes the values of declared parameters.
- `case_space` computes the parameter values of each case.
- `designs` reads zip, sample and table designs.
- `phases` defines the pilot and the target precision.
- `reading` turns the model into a method specification and phases with checked values.
- `arguments` turns arguments of `Study` into sections of a study file.
- `study` defines `Study`.
- `plan` computes the run keys and the order of the runs.
"""
