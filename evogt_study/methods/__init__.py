"""Methods that a study can run.

- `protocol`: `Method`, `BoundCase`, `StageCache`, `MethodSpec`: the contract of a method
- `loading`: from the names in a study to a method; several methods along an axis; methods of other packages
- `problem_kind`: `ProblemKind`, `Problem`: the contract of a kind of problem; kinds of other packages
- `command`: `Program`: a program as a method
- `current_run`: folder, checkpoint and progress of the run that this process computes
- `code`: `UserCode`: a function of a file, a module or a notebook
- `fingerprint`: hash of the source that a function depends on
- `syntax`: Python text as statements, and the names in them
- `local_files`: the user's own files, and the hashes of their content
- `function`: a user function as a method
- `returned`: conversion of the object that a user function returns to a record
- `streams`: random streams: the generator `rng`, draws without a seed, captured generators
"""
