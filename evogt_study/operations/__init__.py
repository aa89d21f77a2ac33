"""Run, inspect, compare and join studies and results.

- `complete`: recognise a complete result before heavy imports, and summarise its runs
- `run`: run the phases of a study and write the result file
- `progress`: report progress to listeners, notebooks and other processes
- `forecast`: estimate the time and memory of a study from a few timed cases
- `compare`: compare runs bit for bit
- `trial`: compute one case of a study, or compute a run of a result again
- `diff`: compare two results
- `listing`: list the results in a folder, with the runs that meet conditions
- `verify`: check a result and compute a sample of its runs again
- `merge`: join results of one study from several machines
- `concat`: join results of different studies along a new dimension
"""
