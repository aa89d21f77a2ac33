"""Finished runs: on disk, as a table, as a labelled Dataset.

- `provenance`: versions of the software that computed a run
- `shards`: records of one batch on disk
- `columns`: one variable over all cases
- `run_table`: the runs of a plan, one row a case
- `decisions`: the pilot's choice, and the seeds that cells need
- `bookkeeping`: parts that a file must have to be a result
- `digests`: checksums of a result's content, written and held against it
- `dataset`: a table as a labelled Dataset, and back to records
- `netcdf`: the result file, written and read
- `declared_sizes`: sizes that a file declares, held against what it can hold
- `integrity`: whether a file is intact: by its seal, else read in a process of its own
- `stored_plan`: the study and plan of a result
- `run_sources`: the places that hold finished runs
- `store`: finished runs that a study does not ask for now
- `finished_runs`: the one reader of a study's finished runs, wherever they lie
"""
