"""The one lock around every use of HDF5 in this process: the library crashes when two threads enter it."""

from __future__ import annotations

import threading

HDF5_LOCK = threading.RLock()
