"""Store files and arrays, independent of their content.

- `atomic`: files and folders that appear completely or not at all, and marks of processes
- `lease`: right of one process to a result, to a part of a plan or to a temporary folder
- `hdf5`: writer of NetCDF-4 files with HDF5 alone, and the lock around HDF5
- `paths`: paths of the files that belong to a result
- `untrusted`: readers of small files that other people may have made
- `arrays`: arrays in slabs, packed in pieces with checksums, or computed once per machine
"""
