"""A study, its cases and its plan.

- `model`: `StudyModel`, the pydantic model of a study, and its TOML
- `parameter_values`: values of declared parameters, given or computed by a formula; needs of runs; mistakes
- `case_space`: axes, constants, rules and tables; the parameter values of one case
- `designs`: points, ranges and samples that a study states; `evs.sample`, `evs.table`, `evs.zip_axes`
- `phases`: the pilot and its choice; seeds until the target precision is reached
- `reading`: from the model to a method specification and phases with checked values
- `arguments`: arguments of `Study` as sections of a study; a study as a new file
- `study`: `Study`: from arguments or TOML, displayed, compared
- `plan`: cases of a phase, their keys, their order and the stages that they share
"""
