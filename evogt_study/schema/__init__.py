"""Declarations of parameters, variables and records.

`values` defines the canonical form, the JSON, the hashes and the coordinates of values.  `parameters` defines
`Parameter` and reads parameters from the fields of dataclasses.  `status` defines the `Status` of a run and counts runs
by status.  `variables` defines `Variable`, run metadata, reserved names and accuracy warnings.  `records` defines
`Case`, `Record` and `RunRecords`.
"""
