"""One declaration for each parameter, variable and record.

- `values`: canonical values, their JSON, hashes and coordinates
- `parameters`: `Parameter`: name, valid values, text for figures
- `fields`: fields of dataclasses as parameters
- `variables`: `Variable`, run metadata, `Status`, reserved names, accuracy warnings
- `records`: `Case`, `Record`, `RunRecords`
"""
