"""Hold finished runs in shards, tables, Datasets and result files.

- `provenance`: software versions, machine and code revision, and the summary of a result
- `table`: a table of runs with one row for each case
- `dataset`: conversion of a table to a labelled Dataset, and of a Dataset to records
- `index`: the index of shards and results, with the place and checksum of each piece
- `netcdf`: the NetCDF part of a result file, its run metadata, and access to unfinished results
- `finished`: shards, stores and other sources of finished runs
- `reopened`: the study and the plan of a result
"""
