"""Time and memory of the whole reproduction, from a cold start to the report.

    python tests/benchmarks/reproduction.py [STUDIES]...

Prints the runs' seconds by study, wall seconds, and the largest resident memory of all processes together, sampled ten
times a second.  Results go to a temporary folder.  The ratio "runs / (workers x wall)" is what start-up, the report and
idle workers leave to the runs.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import xarray as xr

WORKERS = 2


def resident(process):
    """Bytes of a process and its descendants."""
    total = 0
    for each in [process, *process.children(recursive=True)]:
        try:
            total += each.memory_info().rss
        except psutil.Error:  # it ended meanwhile
            continue
    return total


def watched(command):
    """(wall seconds, peak bytes, exit code) of a command."""
    started, peak = time.perf_counter(), 0
    process = psutil.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            peak = max(peak, resident(process))
        except psutil.Error:
            break
        time.sleep(0.1)
    return time.perf_counter() - started, peak, process.wait()


def seconds_of_runs(path):
    """Seconds of the runs of a result, its pilot's among them."""
    with xr.open_dataset(path) as study:
        seconds = float(study.wall_seconds.sum())
        piloted = "pilot_group" in study.attrs
    if piloted:
        with xr.open_dataset(path, group="run_pilot") as pilot:
            seconds += float(pilot.run_seconds.sum())
    return seconds


def main():
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "evogt_study", "reproduce", "-q", "--workers", str(WORKERS), "-o", folder]
        wall, peak, code = watched([*command, *sys.argv[1:]])
        runs = {path.stem: seconds_of_runs(path) for path in sorted(Path(folder).glob("*.nc"))}
    for name, seconds in sorted(runs.items(), key=lambda pair: -pair[1]):
        print(f"{name:24} {seconds:7.2f} s of runs")
    total = sum(runs.values())
    print(f"wall {wall:.1f} s, exit code {code}, peak memory {peak / 1e9:.2f} GB, {WORKERS} workers")
    print(f"runs {total:.1f} s, runs / (workers x wall) = {total / (WORKERS * wall):.2f}")


if __name__ == "__main__":
    main()
