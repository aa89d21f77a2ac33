"""One study on one worker and on two, and its runs beside those of the line-by-line transcription.

    python tests/benchmarks/scaling.py [STUDY.toml] [--workers 1 2] [--naive N] [-o RESULT.nc]

Prints for each number of workers the wall seconds of `evogt run` (interpreter and cluster start included), seconds a
run and core, and the largest resident memory of the client and of a worker, sampled twenty times a second; with both 1
and 2 workers the parallel efficiency, wall(1) / (2 wall(2)).  --naive N: processor seconds of N runs of the study,
evenly spaced, by tests/specification.py with one BLAS thread, and how many times a run of the package takes that, per
core.  The default study is studies/large/oscillatory_1d_seeds.toml, 100,608 runs; -o keeps its result.
"""

import argparse
import shutil
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

SHORT = ROOT / "studies" / "paper" / "p1_fem_target.toml"


def watched(command):
    """Wall seconds, and the largest resident bytes of the command and of one of its workers."""
    started, client, worker = time.perf_counter(), 0, 0
    process = psutil.Popen(command)
    while process.poll() is None:
        try:
            client = max(client, process.memory_info().rss)
            worker = max([worker, *(each.memory_info().rss for each in process.children(recursive=True))])
        except psutil.Error:  # it ended meanwhile
            continue
        time.sleep(0.05)
    if process.wait() != 0:
        sys.exit(f"exit code {process.returncode} of {' '.join(map(str, command))}")
    return time.perf_counter() - started, client, worker


def runs_of(path):
    """Number of runs of a result, its pilot's among them."""
    with xr.open_dataset(path) as data:
        count, piloted = int((data.status != 0).sum()), "pilot_group" in data.attrs
    if piloted:
        with xr.open_dataset(path, group="pilot") as pilot:
            count += int((pilot.status != 0).sum())
    return count


def naive_seconds(study, path, count):
    """Processor seconds a run of `count` runs by the transcription, and the largest relative difference of errors."""
    choice = None
    with xr.open_dataset(path) as data:
        if study.pilot is not None:
            pilot, gamma = naive.pilot_plan(study), data[study.pilot.parameter].values
            choice = naive.choice_of(study, pilot, np.full(pilot.space.size, np.nan), gamma)
        plan, errors = naive.study_plan(study, choice), data.error.values.ravel()
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
    parser.add_argument("--naive", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    walls, per_run = {}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for workers in options.workers:
            path = Path(folder) / f"{workers}.nc"
            command = [sys.executable, "-m", "evogt_study", "run", "-q", options.study, "-o", path]
            walls[workers], client, worker = watched([*command, "--workers", str(workers)])
            runs = runs_of(path)
            per_run = walls[workers] * workers / runs
            print(
                f"{workers} workers: {runs:,} runs in {walls[workers]:.1f} s, {1e3 * per_run:.3f} ms a run and core; "
                f"client {client / 1e6:.0f} MB, largest worker {worker / 1e6:.0f} MB",
                flush=True,
            )
        if {1, 2} <= walls.keys():
            command = [sys.executable, "-m", "evogt_study", "run", "-q", SHORT, "--workers", "2"]
            start = min(watched([*command, "-o", Path(folder) / f"short{i}.nc"])[0] for i in range(3))
            working = (walls[1] - start) / (2 * (walls[2] - start))
            print(
                f"parallel efficiency on two workers {walls[1] / (2 * walls[2]):.3f}, "
                f"{working:.3f} without {start:.1f} s of start-up"
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
