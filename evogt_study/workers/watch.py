"""A watch over a cluster that may lose all of its workers, for which Dask itself would wait for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from concurrent.futures import CancelledError
from typing import Any

from distributed import Client, Future

from evogt_study.workers.limits import WORKER_SECONDS

LOOK_SECONDS = 5.0
"""Seconds between two looks, each of which is a round trip to the scheduler."""
NO_WORKERS = f"the Dask cluster has no workers for {WORKER_SECONDS} s; finished runs are kept, the same command goes on"


class Watch:
    """Cancels the `futures` of `client` once no worker has been there for `WORKER_SECONDS`; `deserted` says so then.

    Whoever waits for one of them goes on with an error.  As a context it watches as long as its body runs.
    """

    def __init__(self, client: Client, futures: Collection[Future[Any]]) -> None:
        self.client, self.futures, self.deserted = client, futures, False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="evogt-watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join(LOOK_SECONDS)

    def _look(self) -> None:
        seen = time.monotonic()
        while not self._over.wait(min(LOOK_SECONDS, WORKER_SECONDS / 4)):
            try:
                if self.client.nthreads():
                    seen = time.monotonic()
                elif time.monotonic() > seen + WORKER_SECONDS:
                    self.deserted = True
                    self.client.cancel(list(self.futures))
                    return
            except (OSError, RuntimeError, CancelledError):  # the connection is lost, which the sweep notices by itself
                return
