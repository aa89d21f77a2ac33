"""Store files and arrays, independent of their content.

- `files`: paths, atomic writing and careful reading of files, and marks of processes
- `lease`: right of one process to a result, to a part of a plan or to a temporary folder
- `hdf5`: writer of NetCDF-4 files with HDF5 alone, and the lock around HDF5
- `arrays`: arrays in slabs, packed in pieces with checksums, or computed once per machine
"""
