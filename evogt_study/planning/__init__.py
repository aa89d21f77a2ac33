"""What is to be computed, in which order, and how long it takes.

- `plan`: the cases of a phase, and the work that they share
- `case_keys`: the key of each case, made from its content
- `case_work`: the rough work of all cases, by the axes that decide it
- `execution_order`: neighbours share stages, long runs come first
- `forecast`: how long a study takes, and which of several goes first
"""
