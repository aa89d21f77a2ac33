"""Methods that a study can run.

- `protocol`: contract of a method: `Method`, `BoundCase`, `StageCache`, `MethodSpec`
- `loading`: search for the method that a study names
- `problem_kind`: contract of a kind of problem: `ProblemKind`, `ProblemObject`
- `command`: run of a program as a method
- `current_run`: folder, checkpoint and progress of the current run
- `code`: `UserCode`, a function of a file, a module or a notebook
- `fingerprint`: hash of the source that a function depends on
- `syntax`: parser of Python text into statements and their names
- `local_files`: search and hashes of user files
- `function`: run of a user function as a method
- `returned`: conversion of a returned object to a record
- `streams`: generator `rng`, and seeds of the global generators
"""
