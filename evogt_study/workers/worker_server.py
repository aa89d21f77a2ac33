"""Start the process from which workers are forked, before the command imports Dask.

This process imports once what every worker needs.  A worker that starts on its own imports for more than a second.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

from evogt_study.storage.lease import own_folder

START_METHOD = "forkserver" if sys.platform == "linux" else "spawn"
"""Start method of workers: other systems' libraries may not live on in a forked process, or nothing can be forked."""
# what a worker needs first and what takes longest to import; modules of a user are never among them
PRELOADED = (
    "distributed",
    "distributed.http.worker",
    "evogt_study.workers.batch",
    "evogt_study.pde.methods.evolution",
    "evogt_study.workers.preload",  # last: it freezes what is there
)
BLAS_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
)
ONE_THREAD = dict.fromkeys(BLAS_THREADS, "1")
"""Environment in which BLAS libraries, when they are imported, start no threads."""
# not 1 or 2, by which interpreters end, nor 128 and more, by which shells report signals
RUNS_THE_SCRIPT = 93
"""Exit code of a worker in which the user's script would start workers; any that nothing else uses."""
# read as text: importing the script to find out is what must not happen
GUARD = b"\nif __name__ =="
SCRIPT_SECONDS = 30
"""Seconds for a worker to import the user's script.

Imports take 1.4 s of it on a machine with four times as many busy processes as cores.
"""


def start_ahead() -> None:
    """Start the process that workers are forked from, unless there is one; it ends with this one."""
    if START_METHOD != "forkserver":
        return
    # multiprocessing makes its sockets there, so that a killed command leaves no second folder
    multiprocessing.current_process()._config.setdefault("tempdir", str(own_folder()))  # type: ignore[attr-defined]
    forkserver.set_forkserver_preload(list(PRELOADED))
    resource_tracker.ensure_running()  # here, since it unblocks Ctrl-C
    # both are inherited by all that is forked from the server: BLAS reads its variables when it is imported, which is
    # there
    with _environment(ONE_THREAD), ctrl_c_blocked():
        forkserver.ensure_running()


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the processes that the body starts."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def ctrl_c_blocked() -> Iterator[None]:
    """Processes that the body starts never see Ctrl-C, which is for this one to answer."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_if_being_started() -> None:
    """End this process where it is a worker being started, which imports the user's script, and that starts workers."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # by which Python itself knows it
        os._exit(RUNS_THE_SCRIPT)


def runs_the_script() -> bool:
    """Try whether a worker that is started now ends in `end_if_being_started`, within `SCRIPT_SECONDS`.

    A script with the usual guard is not tried, so that it starts no later.
    """
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is None or not Path(script).is_file() or GUARD in Path(script).read_bytes():
        return False
    context: Any = multiprocessing.get_context(START_METHOD)
    worker = context.Process(target=_nothing, daemon=True)
    with suppress(OSError, EOFError):  # no memory for one
        worker.start()
        worker.join(SCRIPT_SECONDS)
    return bool(worker.exitcode == RUNS_THE_SCRIPT)


def _nothing() -> None:
    pass
