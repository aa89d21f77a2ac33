"""One declaration for each parameter, variable and record.

- `exact`: values as JSON, to the bit and with their type
- `values`: JSON, hashes and coordinates of values
- `parameters`: `Parameter`: name, valid values, text for figures
- `fields`: fields of dataclasses as parameters
- `variables`: `Variable`, run metadata, `Status`, reserved names, accuracy warnings
- `records`: `Case`, `Record`, `RunRecords`
"""
