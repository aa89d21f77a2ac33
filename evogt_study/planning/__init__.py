"""Plans: the cases to compute, their order, and the time that they take.

- `former_keys`: runs that earlier results know by other keys
- `plan`: the cases of a phase, and the work that they share
- `case_keys`: the key of each case, made from its content
- `case_work`: the rough work of all cases, by the axes that decide it
- `execution_order`: neighbours share stages, long runs come first
- `forecast`: prediction of the time of a study, and the order of several
"""
