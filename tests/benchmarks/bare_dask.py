"""What Dask takes by itself: start of a cluster on this machine, and processor time of the command a task.

    python tests/benchmarks/bare_dask.py [--workers 2 16 64] [--tasks 40] [--seconds 0.8]

For each number of workers two clusters, each in a process of its own: Dask's `LocalCluster` as it comes, and the one
that `evogt run` starts (settings, certificate, workers forked).  Tasks, `--tasks` for each worker, sleep `--seconds`;
three for each worker are on their way, finished ones are gathered and replaced every quarter second, as those of a
study are.  Prints seconds from the start of the interpreter until all workers have answered, and milliseconds of the
command's processor time, scheduler included, for each further task.  What `many_workers.py` finds beyond that is the
study's.
"""

import argparse
import logging
import os
import subprocess
import sys
import time
from contextlib import ExitStack

KINDS = ("Dask's own", "evogt run's")
ROUND_SECONDS = 0.25
"""As of `evogt_study.workers.dask_executor`, which the first of the two must not import."""


def asleep(_, seconds):
    time.sleep(seconds)
    return os.getpid()


def finished(client, count, seconds, workers):
    """Answers of `count` tasks as they come."""
    from distributed import as_completed

    left, live = count, as_completed([], loop=client.loop)

    def submit(wanted):
        nonlocal left
        some = range(left - min(wanted, left), left)
        live.update(client.map(asleep, some, seconds=seconds, key=[f"{count}-{each}" for each in some], pure=False))
        left -= len(some)

    submit(3 * workers)
    for futures in live.batches():
        started = time.monotonic()
        yield from client.gather(list(futures))
        for future in futures:
            future.release()
        submit(len(futures))
        if left:
            time.sleep(max(0.0, started + ROUND_SECONDS - time.monotonic()))


def measured(kind, workers, tasks, seconds, begun):
    """A line of figures of one cluster; begun: the time at which the interpreter started."""
    with ExitStack() as stack:
        if kind == KINDS[0]:
            from distributed import Client, LocalCluster

            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
                )
            )
            client = stack.enter_context(Client(cluster))
        else:
            from evogt_study.workers.clusters import connected

            client = stack.enter_context(connected(None, workers))
        there = set()
        while len(there) < workers:
            there |= set(finished(client, 2 * workers, 0.02, workers))
        start = time.time() - begun
        taken = time.process_time()
        done = sum(1 for _ in finished(client, tasks * workers, seconds, workers))
        taken = 1e3 * (time.process_time() - taken) / done
        return f"{kind}, {workers} workers: all there after {start:.2f} s, then {taken:.2f} ms a task"


def main():
    parser = argparse.ArgumentParser(description="What Dask takes by itself; see the head of this file.")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 16, 64])
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.8)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, begun = options.one
        print(measured(kind, options.workers[0], options.tasks, options.seconds, float(begun)), flush=True)
        return
    for workers in options.workers:
        for kind in KINDS:
            sizes = ["--workers", str(workers), "--tasks", str(options.tasks), "--seconds", str(options.seconds)]
            command = [sys.executable, __file__, *sizes, "--one", kind, str(time.time())]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
