"""How busy a command keeps many workers: measured on runs that sleep, and simulated.

    python tests/benchmarks/many_workers.py [--workers 4 16 64] [--sleep 0.02] [--seconds 20] [--command-seconds 0.007]
    python tests/benchmarks/many_workers.py --simulate PICTURE.png [the same]

For each number of workers a study of runs that sleep `--sleep` seconds, as many as take all workers `--seconds`, is
run from the command line.  Prints wall seconds, those before the first run, those before each worker has had one, those
after the last, the share of the workers' time between the latter two in which they slept, measured and simulated, and
the processor seconds of the command (scheduler included) and of all others.

The simulation has the package's own sizes of batches; each batch takes the command `--command-seconds`, and a worker
`WORKER_SECONDS` beside its runs.  A command that is busy replaces no batch; a worker without one waits.  --simulate
draws the share of 1 to 2,000 workers' time in an hour of runs of 5 ms, 100 ms and 10 s, and the share of the measured
studies beside what was measured.
"""

import argparse
import heapq
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

import numpy as np
import psutil
import xarray as xr

from evogt_study.workers.dask_executor import BATCHES_AHEAD, ROUND_SECONDS
from evogt_study.workers.executor import CLIENT_SECONDS, BatchSize

WORKER_SECONDS = 0.005
"""Of a worker's time for each batch: messages, packing, and what Dask itself does."""
METHOD = """import os, time
def method(i):
    began = time.time()
    time.sleep({sleep})
    return {{'error': 1.0, 'began': began, 'took': time.time() - began, 'worker': os.getpid()}}
"""
STUDY = 'name = "asleep"\nmethod = "method.py:method"\n[axes]\ni = {{ start = 0, count = {count} }}\n'


def processor_seconds(process):
    """User and system seconds of a process so far; 0 where it has ended."""
    try:
        return sum(process.cpu_times()[:2])
    except psutil.Error:
        return 0.0


def measured(workers, sleep, seconds, command_seconds, folder):
    """The busy share for this number of workers, and a line of figures."""
    count = max(workers, int(workers * seconds / sleep))
    (folder / "method.py").write_text(METHOD.format(sleep=sleep))
    (folder / "asleep.toml").write_text(STUDY.format(count=count))
    result, started = folder / f"{workers}.nc", time.time()
    command = [sys.executable, "-m", "evogt_study", "run", "-q", folder / "asleep.toml", "-o", result]
    process = psutil.Popen([*map(str, command), "--workers", str(workers)])
    taken = {}
    while process.poll() is None:
        for each in [process, *process.children(recursive=True)]:
            taken[each.pid] = max(processor_seconds(each), taken.get(each.pid, 0.0))
        time.sleep(0.5)
    if process.returncode:
        sys.exit(process.returncode)
    wall, own = time.time() - started, taken.pop(process.pid)
    with xr.open_dataset(result) as data:
        began, took, worker = data.began.values, data.took.values, data.worker.values
    first, last = began.min(), (began + took).max()
    all_there = max(began[worker == each].min() for each in set(worker))
    busy = took[began > all_there].sum() / (workers * (last - all_there))
    return busy, (
        f"{workers} workers: {count:,} runs of {1e3 * sleep:g} ms in {wall:.1f} s, {first - started:.2f} s before the "
        f"first, {all_there - started:.2f} s before all had one and {started + wall - last:.2f} s after the last; "
        f"between these two {100 * busy:.1f} % busy, simulated "
        f"{100 * simulated(workers, sleep, seconds, command_seconds):.1f} %; command {own:.1f} s of processor time, "
        f"others {sum(taken.values()):.1f} s"
    )


class Batches:
    """What `BatchSize` looks at of the records of `count` runs that took `seconds` each."""

    def __init__(self, count, seconds):
        self.keys, self.wall_seconds, self.stacks = range(count), np.full(count, seconds), ()


def simulated(workers, run, seconds, command):
    """Share of the workers' time that is runs, of a study that takes all of them `seconds` at best."""
    count = max(1, int(workers * seconds / run))
    size, now, idle, cases = BatchSize(count, workers, 1), 0.0, workers, iter(range(count))
    ends, waiting, done = [], deque(), []  # a worker takes the next that waits as soon as its own has ended
    while size.left or waiting or ends or done:
        started = now
        for runs in done:  # each is fetched, kept and replaced
            size.measured(Batches(runs, run))
            now += command
        done.clear()
        while size.left and len(ends) + len(waiting) < BATCHES_AHEAD * workers:
            waiting.append(len(size.take(cases)))
        while idle and waiting:
            idle -= 1
            heapq.heappush(ends, (now + waiting[0] * run + WORKER_SECONDS, waiting.popleft()))
        if len(ends) + len(waiting) > workers:
            now = max(now, started + min(ROUND_SECONDS, size.shortest))
        if ends:
            now = max(now, ends[0][0])
        while ends and ends[0][0] <= now:
            end, runs = heapq.heappop(ends)
            done.append(runs)
            idle += not waiting
            if waiting:
                heapq.heappush(ends, (end + waiting[0] * run + WORKER_SECONDS, waiting.popleft()))
    return count * run / (workers * now)


COUNTS = [1, 2, 4, 16, 64, 128, 250, 500, 1000, 2000]


def draw(path, command, sleep, seconds, found):
    """The picture of busy shares, and their figures; `found` are those measured, by the number of workers."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for run in (0.005, 0.1, 10.0):
        shares = [100 * simulated(workers, run, 3600.0, command) for workers in COUNTS]
        axes.plot(COUNTS, shares, "o-", label=f"an hour of runs of {run:g} s, simulated")
        print(f"runs of {run:g} s: " + ", ".join(f"{n} {s:.1f} %" for n, s in zip(COUNTS, shares, strict=True)))
    short = [100 * simulated(workers, sleep, seconds, command) for workers in found]
    axes.plot([*found], short, "k--", label=f"{seconds:g} s of runs of {sleep:g} s, simulated")
    axes.plot([*found], [100 * share for share in found.values()], "kx", label="the same, measured")
    axes.set(xscale="log", ylim=(80, 101), xlabel="workers", ylabel="busy, %", title="How busy workers are kept")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description="How busy many workers are; see the head of this file.")
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--sleep", type=float, default=0.02)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--simulate", type=Path)
    parser.add_argument("--command-seconds", type=float, default=CLIENT_SECONDS)
    options = parser.parse_args()
    how, found = (options.sleep, options.seconds), {}
    for workers in options.workers:
        with tempfile.TemporaryDirectory() as folder:
            found[workers], line = measured(workers, *how, options.command_seconds, Path(folder))
            print(line, flush=True)
    if options.simulate:
        draw(options.simulate, options.command_seconds, *how, found)


if __name__ == "__main__":
    main()
