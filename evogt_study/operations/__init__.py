"""Run, inspect, compare and join studies and results.

- `complete` recognises a complete result before slow imports, and summarises its runs.
- `run` runs the phases of a study and writes the result file.
- `progress` reports progress to listeners, notebooks and other processes.
- `forecast` estimates the time and memory of a study from a few timed cases.
- `diff` reads the runs of results, and compares the runs bit for bit.
- `listing` lists the results in a folder, and counts the runs that meet conditions.
- `verify` computes one case, checks a result, and repeats some of its runs.
- `merge` joins results of one study, or of different studies along a new dimension.
"""
