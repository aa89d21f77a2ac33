"""A study, its cases and its plan.

- `model`: `StudyModel`, the pydantic model of a study, and its TOML
- `parameter_values`: values of declared parameters, given or computed by a formula; the place of a mistake
- `case_space`: axes, constants, rules and tables; the parameter values of one case
- `listed`: points, ranges and point files that a study lists
- `sampled`: samples: rules, distributions, growth
- `designs`: all designs of a study; `evs.sample`, `evs.table`, `evs.zip_axes`
- `phases`: the pilot and its choice; seeds until the target precision is reached
- `reading`: from the model to a method specification and phases with checked values
- `definition`: from the arguments of `Study` to the model
- `study`: `Study`: built in Python or read from TOML, written, displayed, compared
- `run_keys`: the run key of each case of a plan
- `plan`: cases of a phase, their keys, their order and the stages that they share
"""
