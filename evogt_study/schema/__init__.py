"""One declaration for each parameter, variable and record.

- `values`: canonical form, JSON, hashes and coordinates of values
- `parameters`: `Parameter`: name, valid values, text for figures; fields of dataclasses as parameters
- `status`: `Status` of a run, numbers of runs by status
- `variables`: `Variable`, run metadata, reserved names, accuracy warnings
- `records`: `Case`, `Record`, `RunRecords`
"""
