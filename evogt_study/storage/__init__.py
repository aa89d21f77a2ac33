"""Files and arrays, independent of their content.

- `atomic`: files and folders that appear completely or not at all; marks of processes
- `lease`: right of one process to a result, to a part of a plan or to a temporary folder
- `hdf5`: NetCDF-4 files written by HDF5 alone; the one lock around HDF5 in a process
- `paths`: paths of the files that belong to a result
- `untrusted`: small files that other people may have made
- `arrays`: arrays in slabs, packed in pieces with checksums, or computed once per machine
"""
