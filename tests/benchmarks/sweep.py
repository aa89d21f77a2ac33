"""What the machinery of a sweep costs, measured on runs that do nothing.

    python tests/benchmarks/sweep.py [--axes N] [--sampled] [--workers N] [SIZES]...

For each of SIZES (default: 10,000 and 100,000) a study of that many runs of a function of one line is run from the
command line, run again when all is there, and its result is opened.  Prints, for each size:

- run: wall seconds, start-up included, and milliseconds a run from plan to consolidated file, without the seconds that
  a study of a handful of runs takes;
- memory: the largest resident memory of the process that plans, schedules and writes, and of the largest worker,
  sampled twenty times a second;
- again: wall seconds of the same command when nothing is missing;
- summary: wall seconds of `evogt summary` over the last axis, with a row for each point of the others;
- open, load: xarray's seconds to open the result, and to read all of it; and the file's size.

With --sampled the runs are points of a Sobol sequence in as many parameters instead of a grid.

Everything is in a temporary folder.  Wall times on a shared machine vary by half.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import xarray as xr

METHOD = "def method({arguments}):\n    return {{'error': float(i)}}\n"
SAMPLE_SECONDS = 0.05


def write_study(folder, size, axes, sampled=False):
    """A study file of `size` runs over `axes` axes, all but the first of ten values, or as many sampled parameters."""
    names = "ijklmn"[:axes]
    lengths = [size // 10 ** (axes - 1)] + [10] * (axes - 1)
    lines = [f"{name} = {{ start = 0, count = {length} }}" for name, length in zip(names, lengths, strict=True)]
    (folder / "method.py").write_text(METHOD.format(arguments=", ".join(names)))
    section = "[axes]"
    if sampled:
        section = f'[[sample]]\nname = "point"\nrule = "sobol"\ncount = {size}'
        lines = [f"{name} = {{ from = 0, to = 1000 }}" for name in names]
    path = folder / "bench.toml"
    path.write_text("\n".join(['name = "bench"', 'method = "method.py:method"', section, *lines, ""]))
    return path


def resident(process):
    """Bytes of the process itself and of its largest descendant."""
    sizes = [0]
    for child in process.children(recursive=True):
        try:
            sizes.append(child.memory_info().rss)
        except psutil.Error:  # it ended meanwhile
            continue
    return process.memory_info().rss, max(sizes)


def watched(command):
    """(wall seconds, peak bytes of the process, peak bytes of its largest descendant) of a command."""
    started, own, largest = time.perf_counter(), 0, 0
    process = psutil.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            found = resident(process)
        except psutil.Error:
            break
        own, largest = max(own, found[0]), max(largest, found[1])
        time.sleep(SAMPLE_SECONDS)
    if process.wait():
        raise SystemExit(f"{' '.join(map(str, command))} ended with exit code {process.returncode}")
    return time.perf_counter() - started, own, largest


def opened(path):
    """(seconds to open, seconds to read everything) of a result."""
    started = time.perf_counter()
    with xr.open_dataset(path) as data:
        opening = time.perf_counter() - started
        data.load()
    return opening, time.perf_counter() - started


def measure(size, options, start_up=0.0):
    """Run, run again and open a study of `size` runs; returns the seconds of the first."""
    with tempfile.TemporaryDirectory(prefix="evogt-benchmark-") as name:
        folder = Path(name)
        study, result = write_study(folder, size, options.axes, options.sampled), folder / "bench.nc"
        command = [sys.executable, "-m", "evogt_study", "run", "-q", "--workers", str(options.workers)]
        command += [str(study), "-o", str(result)]
        wall, own, largest = watched(command)
        if start_up:
            again, again_own, _ = watched(command)
            opening, loading = opened(result)
            print(f"{size:,} runs over {options.axes} axes, {options.workers} workers")
            print(f"  run {wall:.1f} s, {(wall - start_up) / size * 1e3:.3f} ms a run without start-up")
            print(f"  memory {own / 1e6:.0f} MB client and scheduler, {largest / 1e6:.0f} MB largest worker")
            print(f"  again {again:.1f} s, {again_own / 1e6:.0f} MB")
            print(f"  open {opening:.2f} s, load {loading:.2f} s, {result.stat().st_size / 1e6:.1f} MB", flush=True)
            ask = [sys.executable, "-m", "evogt_study", "summary", str(result), "--over", "ijklmn"[options.axes - 1]]
            if not options.sampled:  # there is nothing to reduce over
                print(f"  summary {watched(ask)[0]:.1f} s", flush=True)
    return wall


def main():
    parser = argparse.ArgumentParser(description="Overhead of a sweep; see the head of this file.")
    parser.add_argument("sizes", metavar="SIZES", nargs="*", type=int, default=[10_000, 100_000])
    parser.add_argument("--axes", type=int, default=2, choices=range(1, 7))
    parser.add_argument("--sampled", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    few = 2 * 10 ** (options.axes - 1)
    start_up = min(measure(few, options) for _ in range(3))
    print(f"start-up {start_up:.1f} s: a study of {few} runs")
    for size in options.sizes:
        measure(size, options, start_up)


if __name__ == "__main__":
    main()
