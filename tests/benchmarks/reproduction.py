"""Time and memory of the whole reproduction, from a cold start to the report.

    python tests/benchmarks/reproduction.py [STUDIES]...

Prints the seconds of the runs by study, wall seconds, and the largest resident memory of the command and of a worker.
The ratio "runs / (workers x wall)" is the share of the runs in the time of all workers.
"""

import sys
import tempfile
from pathlib import Path

from scaling import read_seconds
from sweep import watched

WORKERS = 2


def main():
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "evogt_study", "reproduce", "-q", "--workers", str(WORKERS), "-o", folder]
        wall, own, largest = watched([*command, *sys.argv[1:]])
        runs = {path.stem: read_seconds(path)[0] for path in Path(folder).glob("*.nc")}
    for name, seconds in sorted(runs.items(), key=lambda pair: -pair[1]):
        print(f"{name:24} {seconds:7.2f} s of runs")
    total = sum(runs.values())
    print(f"wall {wall:.1f} s, peak {own / 1e6:.0f} MB, largest worker {largest / 1e6:.0f} MB, {WORKERS} workers")
    print(f"runs {total:.1f} s, runs / (workers x wall) = {total / (WORKERS * wall):.2f}")


if __name__ == "__main__":
    main()
