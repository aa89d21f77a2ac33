"""Load and run the methods of a study.

- `protocol` defines the base classes `Method`, `BoundCase` and `ProblemKind`.
- `loading` finds the method that a study names.
- `code` represents user functions from files, modules and notebooks, and the data of a method (`MethodSpec`).
- `fingerprint` computes the fingerprint of a user function.
- `python_files` reads hashes, imports, statements and names of Python files.
- `function` runs user functions and converts the returned objects to records.
- `command` runs programs, such as compiled solvers.
- `current_run` manages the random streams, folder, checkpoint and progress of the current run.
"""
