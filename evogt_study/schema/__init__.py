"""Declarations of parameters, variables and records.

- `values`: canonical form, JSON, hashes and coordinates of values
- `parameters`: `Parameter`, and parameters from the fields of dataclasses
- `variables`: `Variable`, run metadata, reserved names and accuracy warnings
- `records`: `Case`, `Record` and `RunRecords`
"""
