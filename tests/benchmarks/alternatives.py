"""2,000 one-dimensional runs as a study, and around `evogt_study.pde.solve` with joblib and with dask.delayed.

    python tests/benchmarks/alternatives.py [--seeds N] [--workers N] [--repeat R]

What a user would write without the study: a list of parameters, one call a run, errors in a list; joblib's loky
processes with batches of its own size, dask.delayed on a local cluster of processes with one task a run.  All have the
same number of processes with one BLAS thread each; start-up is included, and the interpreter's where it is a command.
Prints wall seconds of each, least of R turns, and the largest difference of the errors.  joblib is no dependency of
this project: it is left out where it is not installed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # before NumPy is imported, here and in workers

import dask
import numpy as np
import xarray as xr
from distributed import Client, LocalCluster

from evogt_study import pde

GAMMA = {"transnet": 10.0, "gtransnet": 20.0, "gaussian_rf": 8.0, "uniform_elm": 12.0}
EPSILON = (0.2, 0.1, 0.05)
SEEDS = 167
STUDY = """
name = "alternatives"
problem = "oscillatory_1d"
[axes]
dictionary = {dictionaries}
epsilon = {epsilon}
seed = {{ start = 0, count = {seeds} }}
[constants]
N = 60
N1 = 240
tau = 1e-12
quadrature = 320
validation = {{ rule = "composite_midpoint", points = 4096 }}
final_time = 0.25
dt = 0.0025
{gammas}
"""
RULE = '[[when]]\nmatch = {{ dictionary = "{name}" }}\nset = {{ gamma = {gamma} }}\n'


def error(family, epsilon, seed):
    """The final error of one run."""
    problem = pde.problems.oscillatory_1d(epsilon=epsilon)
    dictionary = pde.Dictionary(family, 60, GAMMA[family], **({"N1": 240} if family == "gtransnet" else {}))
    validation = {"rule": "composite_midpoint", "points": 4096}
    run = pde.solve(
        problem, dictionary, seed, quadrature=320, dt=0.0025, final_time=0.25, validation=validation, times=(0.25,)
    )
    return float(run.error)


def by_study(points, workers):
    """`evogt run` of the same points."""
    seeds = 1 + max(seed for *_, seed in points)
    text = STUDY.format(
        dictionaries=list(GAMMA), epsilon=list(EPSILON), seeds=seeds,
        gammas="\n".join(RULE.format(name=name, gamma=gamma) for name, gamma in GAMMA.items()),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        study, result = Path(folder) / "alternatives.toml", Path(folder) / "alternatives.nc"
        study.write_text(text)
        command = [sys.executable, "-m", "evogt_study", "run", "-q", study, "-o", result, "--workers", str(workers)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with xr.open_dataset(result) as data:
            return data.error.transpose("dictionary", "epsilon", "seed").values.ravel()


def by_joblib(points, workers):
    """joblib's default processes, batched by it."""
    import joblib

    return joblib.Parallel(n_jobs=workers, backend="loky")(joblib.delayed(error)(*point) for point in points)


def by_dask(points, workers):
    """One delayed call a run."""
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
    ):
        return dask.compute(*[dask.delayed(error)(*point) for point in points])


def main():
    parser = argparse.ArgumentParser(description="A study and its alternatives; see the head of this file.")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    points = [(name, epsilon, seed) for name in GAMMA for epsilon in EPSILON for seed in range(options.seeds)]
    ways, walls, errors = {"study": by_study, "joblib": by_joblib, "dask.delayed": by_dask}, {}, {}
    for name in list(ways) * options.repeat:
        started = time.perf_counter()
        try:
            errors[name] = np.array(ways[name](points, options.workers))
        except ImportError:
            print(f"{name} is not installed")
            continue
        walls[name] = min(time.perf_counter() - started, walls.get(name, np.inf))
    for name, wall in walls.items():
        differs = np.abs(errors[name] / errors["study"] - 1.0).max()
        print(
            f"{name}: {len(points):,} runs on {options.workers} workers in {wall:.1f} s, "
            f"{wall / walls['study']:.2f} times the study's; errors differ by {differs:.1e} at most"
        )


if __name__ == "__main__":
    main()
