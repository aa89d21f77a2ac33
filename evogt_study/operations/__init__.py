"""Operations on studies and results.

- `evaluate`: the solution of one run at any points
- `solve`: one run, labelled
- `progress`: events while a study runs
- `notebook_display`: progress in a notebook
- `watching`: a study that another process computes
- `complete`: a result that is all that its study asks for, recognised by its text
- `trial`: one case of a study computed before all of them
- `reuse`: which finished runs are taken up, and which are tried again
- `run`: a study computed and its result written
- `array`: studies on arrays of tasks without a scheduler
- `advise`: what limits the error of a study, and what a change would gain
- `compare_runs`: two runs compared bit for bit
- `replay`: one case of a result computed again
- `joining`: results of several machines, or of different studies, joined
- `checks`: what can be checked of a result without computing
- `verify`: a result checked, and a sample of it computed again
"""
