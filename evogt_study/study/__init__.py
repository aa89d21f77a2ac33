"""Define studies, compute their cases and plan the runs.

- `model` defines `StudyModel`, the pydantic model of a study, and reads and writes TOML.
- `case_space` computes the parameter values of each case.
- `designs` reads zip, sample and table designs.
- `reading` turns the model into a method specification and phases with checked values.
- `study` defines `Study`, from Python arguments or from a study file.
- `plan` defines the pilot and the target precision, and computes the run keys and the order of the runs.
"""
