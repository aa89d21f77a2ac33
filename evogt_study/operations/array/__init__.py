"""Studies on arrays of tasks, which see one folder and need no scheduler.

- `part`: the cases of a plan, divided into parts that tasks claim
- `task`: one task: parts claimed, computed and joined
- `job_script`: the script that submits an array to a batch system
"""
