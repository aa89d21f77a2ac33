"""The command `evogt`.

- `main`: commands by name, and exit codes
- `inputs`: shared options and arguments, and functions that read studies, results and runs
- `display`: progress, results and warnings in lines of text
- `run`: `evogt run`, `try`, `submit`
- `status`: `evogt status`, `list`, `store`
- `summary`: `evogt summary`, `compare`, `export`
- `pictures`: `evogt plot`, `report`
- `results`: `evogt merge`, `diff`, `verify`, `publish`

The module of a command declares its options.  The command imports all other modules when it runs.
"""
