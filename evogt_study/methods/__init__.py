"""Methods that a study can run.

`protocol` defines `Method`, `BoundCase`, `StageCache` and `MethodSpec`, the contract of a method.  `loading` loads the
methods that a study names.  `problem_kind` defines `ProblemKind` and `ProblemObject`, the contract of a kind of
problem.

`code` defines `UserCode`, a function of a file, a module or a notebook.  `fingerprint` hashes the source that a
function depends on.  `syntax` parses Python text into statements and their names.  `local_files` finds and hashes user
files.

`function` runs a user function as a method, and `command` runs a program.  `returned` converts the object that a user
function returns to a record.  `current_run` provides the folder, the checkpoint and the progress of the current run.
`streams` provides the generator `rng` and seeds the global generators.
"""
