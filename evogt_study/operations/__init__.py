"""Operations on studies and results.

- `complete`: a complete result, recognised by its text before heavy imports
- `run`: `run`: the loop over phases, plan, workers and table
- `progress`: `ProgressEvent`; the progress file; display in a notebook
- `forecast`: time and memory of a study, from a few timed cases
- `compare`: two runs compared bit for bit
- `trial`: one case of a study, or of a result computed again
- `diff`: the runs in which two results differ
- `listing`: the results in a folder, with the runs that meet conditions
- `verify`: a result checked, and a sample of it computed again
- `merge`: results of one study from several machines joined
- `concat`: results of different studies joined along a new dimension
"""
