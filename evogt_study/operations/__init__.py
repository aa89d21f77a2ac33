"""Run, inspect, compare and join studies and results.

- `complete`: recognise a complete result before heavy imports, and summarise its runs
- `run`: run the phases of a study and write the result file
- `progress`: report progress to listeners, notebooks and other processes
- `forecast`: estimate the time and memory of a study from a few timed cases
- `diff`: read the runs of results, and compare them bit for bit
- `listing`: list the results in a folder, with the runs that meet conditions
- `verify`: compute one case, check a result, and compute a sample of its runs again
- `merge`: join results of one study, or of different studies along a new dimension
"""
