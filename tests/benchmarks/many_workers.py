"""How busy a command keeps many workers, measured on runs that sleep.

    python tests/benchmarks/many_workers.py [--workers 4 16 64] [--sleep 0.02] [--seconds 20]

For each number of workers a study of runs that sleep `--sleep` seconds, as many as take all workers `--seconds`, is
run from the command line.  Prints wall seconds, those before the first run, those before each worker has had one, those
after the last, the share of the workers' time between the latter two in which they slept, and the processor seconds of
the command (scheduler included) and of all others.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import psutil
import xarray as xr

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


def measure(workers, sleep, seconds, folder):
    """A line of figures for this number of workers."""
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
    return (
        f"{workers} workers: {count:,} runs of {1e3 * sleep:g} ms in {wall:.1f} s, {first - started:.2f} s before the "
        f"first, {all_there - started:.2f} s before all had one and {started + wall - last:.2f} s after the last; "
        f"between these two {100 * busy:.1f} % busy; command {own:.1f} s of processor time, "
        f"others {sum(taken.values()):.1f} s"
    )


def main():
    parser = argparse.ArgumentParser(description="How busy many workers are; see the head of this file.")
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--sleep", type=float, default=0.02)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    for workers in options.workers:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(workers, options.sleep, options.seconds, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
