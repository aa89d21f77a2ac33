"""The command line, `evogt`.

- `main`: the commands by name, each imported when it is called; failures as one line; exit codes
- `inputs`: options and arguments that commands share: studies, results, runs
- `display`: progress, results and warnings in lines of text
- `progress_bar`: the bar of the progress, which needs rich
- `run`: `evogt run`, `work`, `submit`, `plan` and `try`
- `status`: `evogt status` and `store`
- `summary`: `evogt summary`, `verdict` and `export`
- `pictures`: `evogt plot` and `report`
- `results`: `evogt replay`, `verify`, `publish`, `merge` and `concat`

Commands declare their options at once, and import what they do when they do it.
"""
