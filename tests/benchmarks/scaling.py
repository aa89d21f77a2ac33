"""One study on one worker and on two, and its runs beside those of the line-by-line transcription.

    python tests/benchmarks/scaling.py [STUDY.toml] [--workers 1 2] [--repeat R] [--naive N] [-o RESULT.nc]

Prints for each number of workers the wall seconds of `evogt run` (interpreter and cluster start included), seconds a
run and core, and the largest resident memory that the client and a worker ever had, looked up once a second; with both
1 and 2 workers the parallel efficiency, wall(1) / (2 wall(2)), and beside it what two processes reach that have nothing
in common: products and tanh in cache, and passes over memory.  --repeat R takes turns R times and compares the least
wall seconds of each: what else a shared machine does only adds to them.  --naive N: processor seconds of N runs of the
study, evenly spaced, by tests/specification.py with one BLAS thread, and how many times a run of the package takes
that, per core.  The default study is studies/large/oscillatory_1d_seeds.toml, 100,608 runs; -o keeps its result.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import xarray as xr
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

import naive  # noqa: E402

STUDY = ROOT / "studies" / "large" / "oscillatory_1d_seeds.toml"

LOOK_SECONDS = 1.0
"""Between two looks at all processes, of which one takes 2 ms from those that compute."""
SHORT = ROOT / "studies" / "paper" / "p1_fem_target.toml"


def watched(command):
    """Wall seconds, and the largest resident bytes of the command and of one of its workers."""
    started, client, worker = time.perf_counter(), 0, 0
    process = psutil.Popen(command)
    while True:
        client = max(client, highest(process.pid))
        worker = max([worker, *(highest(each.pid) for each in process.children(recursive=True))])
        try:
            process.wait(LOOK_SECONDS)
            break
        except psutil.TimeoutExpired:
            continue
    wall = time.perf_counter() - started
    if process.returncode != 0:
        sys.exit(f"exit code {process.returncode} of {' '.join(map(str, command))}")
    return wall, client, worker


def highest(pid):
    """The most resident bytes that a process has had; 0 where it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


ALONE = """
import sys, time
import numpy as np
from threadpoolctl import threadpool_limits
z, weight, out, large = np.ones((180, 240)), np.ones((240, 60)), np.empty((180, 60)), np.ones(4_000_000)
def in_cache(): np.matmul(np.tanh(z), weight, out=out)
def in_memory(): np.multiply(large, 1.0, out=large)
step, count, start = {"cache": in_cache, "memory": in_memory}[sys.argv[1]], 0, time.perf_counter()
with threadpool_limits(1):
    while time.perf_counter() - start < 2.0:
        step()
        count += 1
print(count)
"""


def alone(kind, turns=4):
    """What each of two processes does of a thing at the same time, as a share of what one does; medians of turns."""

    def counts(processes):
        command = [sys.executable, "-c", ALONE, kind]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
        return np.mean([int(each.communicate()[0]) for each in running])

    pairs = [(counts(1), counts(2)) for _ in range(turns)]
    return np.median([two for _, two in pairs]) / np.median([one for one, _ in pairs])


def runs_of(path):
    """Number of runs of a result, its pilot's among them."""
    with xr.open_dataset(path) as data:
        count, piloted = int((data.run_status != 0).sum()), "pilot_group" in data.attrs
    if piloted:
        with xr.open_dataset(path, group="run_pilot") as pilot:
            count += int((pilot.run_status != 0).sum())
    return count


def naive_seconds(study, path, count):
    """Processor seconds a run of `count` runs by the transcription, and the largest relative difference of errors."""
    choice = []
    with xr.open_dataset(path) as data:
        if study.pilot is not None:
            pilot, gamma = naive.provisional_plans(study)[0], data[study.pilot.parameters[0]].values
            choice = [naive.choice_of(study, pilot, np.full(pilot.space.size, np.nan), gamma)]
        plan, errors = naive.study_plan(study, *choice), data.error.values.ravel()
    cases, differences = naive.some(plan, count), []
    run = naive.METHODS[plan.spec.method]
    run(plan.spec, cases[0].values)  # its formulas are derived
    started = time.process_time()
    with threadpool_limits(1):
        for case in cases:
            found = run(plan.spec, case.values)["error"]
            differences.append(abs(found - errors[case.index]) / errors[case.index])
    return (time.process_time() - started) / len(cases), max(differences)


def main():
    parser = argparse.ArgumentParser(description="A study on one worker and on two, and by the transcription.")
    parser.add_argument("study", nargs="?", type=Path, default=STUDY)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--naive", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    walls, per_run = {}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for turn, workers in [(turn, workers) for turn in range(options.repeat) for workers in options.workers]:
            path = Path(folder) / f"{workers}-{turn}" / "result.nc"  # in a folder of its own
            command = [sys.executable, "-m", "evogt_study", "run", "-q", options.study, "-o", path]
            wall, client, worker = watched([*command, "--workers", str(workers)])
            walls[workers], runs = min(wall, walls.get(workers, wall)), runs_of(path)
            per_run = walls[workers] * workers / runs
            print(
                f"{workers} workers: {runs:,} runs in {wall:.1f} s, {1e3 * wall * workers / runs:.3f} ms a run and "
                f"core; client {client / 1e6:.0f} MB, largest worker {worker / 1e6:.0f} MB",
                flush=True,
            )
        if {1, 2} <= walls.keys():
            command = [sys.executable, "-m", "evogt_study", "run", "-q", SHORT, "--workers", "2"]
            start = min(watched([*command, "-o", Path(folder) / f"short{i}" / "result.nc"])[0] for i in range(3))
            working = (walls[1] - start) / (2 * (walls[2] - start))
            print(
                f"parallel efficiency on two workers {walls[1] / (2 * walls[2]):.3f}, "
                f"{working:.3f} without {start:.1f} s of start-up; two processes with nothing in common reach "
                f"{alone('cache'):.2f} in cache and {alone('memory'):.2f} in memory"
            )
        if options.naive:
            seconds, difference = naive_seconds(naive.Study.from_file(options.study), path, options.naive)
            print(
                f"transcription: {1e3 * seconds:.3f} ms a run ({options.naive} runs), {seconds / per_run:.2f} times as "
                f"much; errors differ by {difference:.1e} at most"
            )
        if options.output:
            shutil.copy(path, options.output)


if __name__ == "__main__":
    main()
