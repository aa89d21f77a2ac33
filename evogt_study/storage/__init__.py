"""Files and arrays, whatever they hold.

- `processes`: marks by which the process that left a file is recognised
- `temporary_folders`: this process's temporary folder, and those that killed ones left
- `atomic_files`: files and folders that appear whole or not at all
- `writer_lock`: one writer for each result
- `claims`: parts of a piece of work, each claimed by one of several processes
- `hdf5_lock`: the one lock around HDF5 in a process
- `paths`: paths of what belongs to a result
- `slabs`: large arrays part by part
- `seal`: keys and a digest behind the end of a file
- `out_of_core`: arrays that need not fit into memory
"""
