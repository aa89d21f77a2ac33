"""The command `evogt`.

- `main`: commands by name, each imported when called; exit codes
- `inputs`: options and arguments that commands share; the studies, results and runs that they name
- `display`: progress, results and warnings in lines of text
- `run`: `evogt run`, `try`, `submit`
- `status`: `evogt status`, `list`, `store`
- `summary`: `evogt summary`, `compare`, `export`
- `pictures`: `evogt plot`, `report`
- `results`: `evogt merge`, `diff`, `verify`, `publish`

A command declares its options when its module is imported, and imports what it needs when it runs.
"""
