"""One declaration for each thing that a study file or a result names.

- `doubts`: reasons to doubt a run's numbers
- `values`: canonical values of parameters, their JSON form, their labels
- `parameters`: a parameter's name, admitted values and labels
- `variables`: the variables of a result, its bookkeeping, and the status of a run
- `records`: cases and the records of their runs
- `identifiers`: identifiers of people, works and licences
- `reserved_names`: names that nothing of a user's own can have
"""
