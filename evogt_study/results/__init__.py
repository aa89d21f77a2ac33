"""Hold finished runs in shards, tables, Datasets and result files.

- `provenance`: software versions, machine and code revision of a result
- `table`: a table of runs with one row for each case
- `decisions`: parameter values that the pilot chooses, and seeds that a target precision needs
- `dataset`: conversion of a table to a labelled Dataset, and of a Dataset to records
- `run_metadata`: schema version, run metadata and recorded coordinates of a result
- `run_summary`: counts of the runs of a result, which commands read without NumPy
- `index`: the index of shards and results, with the place and checksum of each piece
- `netcdf`: the NetCDF part of a result file, and access to unfinished results
- `finished`: shards, stores and other sources of finished runs
- `reopened`: the study and the plan of a result
"""
