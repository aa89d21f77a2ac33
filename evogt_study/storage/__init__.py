"""Store files and arrays, independent of their content.

- `files` names, reads and atomically writes files, and identifies processes.
- `lease` gives one process the right to a result, a part of a plan or a temporary folder.
- `hdf5` writes NetCDF-4 files with HDF5 alone, and has the lock around HDF5.
- `arrays` divides arrays into slabs, packs them in pieces with checksums, and shares them on a machine.
"""
