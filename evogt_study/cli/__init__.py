"""Define the command `evogt` and its subcommands.

- `main` lists the subcommands, and sets exit codes.
- `inputs` declares the options and arguments of several commands, and reads studies and results.
- `display` prints progress, results and warnings as lines of text.
- `run` defines `evogt run`, `try` and `submit`.
- `status` defines `evogt status`, `list` and `store`.
- `summary` defines `evogt summary`, `compare` and `export`.
- `pictures` defines `evogt plot` and `report`.
- `results` defines `evogt merge`, `diff`, `verify` and `publish`.

The module of a command declares the options.  All other modules are imported when the command runs.
"""
