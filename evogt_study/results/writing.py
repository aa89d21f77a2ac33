"""How Dask is set while a result is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import dask

_DASK_SETTINGS = threading.Lock()


@contextmanager
def by_this_thread() -> Iterator[None]:
    """What Dask holds is worked out here, one part after the other; one thread at a time may ask for that.

    Else a default client would compute it, and xarray would ask that for a cluster-wide lock; and Dask's settings are
    those of all threads.
    """
    with _DASK_SETTINGS, dask.config.set(scheduler="synchronous"):
        yield
