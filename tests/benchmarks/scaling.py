"""One study on one worker and on two: wall seconds, seconds of a run and core, memory and parallel efficiency.

    python tests/benchmarks/scaling.py [STUDY.toml] [--workers 1 2] [--repeat R] [-o RESULT.nc]

Wall seconds include the start of the interpreter and of the workers.  --repeat R takes turns R times and compares the
least wall seconds.  The default study has 100,608 runs; -o keeps its result.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import xarray as xr
from sweep import watched

STUDY = Path(__file__).parents[2] / "studies" / "large" / "oscillatory_1d_seeds.toml"


def read_seconds(path):
    """Seconds of all runs of a result, of its pilot too, and their number."""
    with xr.open_dataset(path) as data:
        groups = [None, "run_pilot"] if "pilot_group" in data.attrs else [None]
    seconds, count = 0.0, 0
    for group in groups:
        with xr.open_dataset(path, group=group) as data:
            seconds, count = seconds + float(data.run_seconds.sum()), count + int((data.run_status != 0).sum())
    return seconds, count


def main():
    parser = argparse.ArgumentParser(description="A study on one worker and on two.")
    parser.add_argument("study", nargs="?", type=Path, default=STUDY)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    walls = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn, workers in [(turn, workers) for turn in range(options.repeat) for workers in options.workers]:
            path = Path(folder) / f"{workers}-{turn}" / "result.nc"
            command = [sys.executable, "-m", "evogt_study", "run", "-q", options.study, "-o", path]
            wall, client, worker = watched([*map(str, command), "--workers", str(workers)])
            walls[workers], (_, count) = min(wall, walls.get(workers, wall)), read_seconds(path)
            print(
                f"{workers} workers: {count:,} runs in {wall:.1f} s, {1e3 * wall * workers / count:.3f} ms a run and "
                f"core; client {client / 1e6:.0f} MB, largest worker {worker / 1e6:.0f} MB",
                flush=True,
            )
        if {1, 2} <= walls.keys():
            print(f"parallel efficiency on two workers {walls[1] / (2 * walls[2]):.3f}")
        if options.output:
            shutil.copy(path, options.output)


if __name__ == "__main__":
    main()
