"""Plans: the cases to compute, their order, and the time that they take.

- `older_code_keys`: keys of runs that an older version of the user's code computed
- `plan`: the cases of a phase, and the work that they share
- `case_keys`: the key of each case, made from its content
- `case_work`: the rough work of all cases, by the axes that decide it
- `execution_order`: neighbours share stages, long runs come first
- `forecast`: prediction of the time of a study, and the order of several
"""
