"""Methods that a study can run.

- `protocol`: contracts of a method and of a kind of problem: `Method`, `BoundCase`, `ProblemKind`
- `loading`: search for the method that a study names
- `code`: `UserCode`, a function of a file, a module or a notebook; `MethodSpec`, from which a worker makes the method
- `fingerprint`: hash of the source that a function depends on
- `python_files`: hashes, imports, statements and names of Python files
- `function`: run of a user function as a method, and conversion of the returned object to a record
- `command`: run of a program as a method
- `current_run`: random streams, folder, checkpoint and progress of the current run
"""
