"""Finished runs: on disk, as a table, as a Dataset, as a file.

- `provenance`: software versions that computed a run
- `table`: `Table`: one row for each case
- `decisions`: parameter values that the pilot chooses, and seeds that a target precision needs
- `dataset`: conversion of a table to a labelled Dataset, and of a Dataset to records
- `run_metadata`: parts that every result has: schema version, run metadata, recorded coordinates
- `run_summary`: numbers of the runs of a result, which are read without NumPy
- `index`: the index at the end of shards and results: records with the place and checksum of each piece
- `netcdf`: the result file, written and read; results that are still being written
- `finished`: shards; places that hold finished runs; `FinishedRuns`: finished runs of a study from all places
- `reopened`: a result with its study and plan
"""
