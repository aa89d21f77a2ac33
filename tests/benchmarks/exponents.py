"""How time grows: of a study with its number of runs, of a run's stages with N and with Q, beside app:scaling.

    python tests/benchmarks/exponents.py PICTURE.png [--runs 100 1000 10000 100000 1000000] [--small]

Measures the wall seconds of `evogt run` of runs that return at once, and processor seconds (least of three, one BLAS
thread) of the stages whose costs the paper states, over N = r = 20 to 640 at Q = 2,560 and over Q = 320 to 10,240 at
N = r = 80.  Prints for each the exponent of a power law through the largest half, beside the paper's, and draws them.
"""

import argparse
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sweep
from scipy.linalg import cho_factor
from threadpoolctl import threadpool_limits

from evogt_study import pde
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.retained_space import trial_functions, weighted_svd
from evogt_study.pde.galerkin.system import weighted_gram
from evogt_study.pde.numerics.quadrature import QuadratureRule

PAPER = {  # exponents of N (or r) and of Q
    "features, N1 = 4 N: Q N1 N": (2, 1),
    "thin SVD: Q N^2": (2, 1),
    "stiffness: Q r^2": (2, 1),
    "factorisation: r^3": (3, 0),
    "projection of a reaction: Q r": (1, 1),
}


def stages(N, Q):
    """What the paper states the cost of, at these sizes, in the order of `PAPER`."""
    rng = np.random.default_rng(0)
    cube = UnitCube(1)
    nodes = (np.arange(Q) + 0.5)[:, None] / Q
    features = pde.Dictionary("gtransnet", N, 20.0, N1=4 * N).sample(0, 1)
    trial = trial_functions(cube, features, cube.quadrature(QuadratureRule("composite_midpoint", Q)))
    basis, weights = rng.standard_normal((1, Q, N)), rng.random(Q)
    spd = np.eye(N) * N + weighted_gram(basis, weights)
    return (
        lambda: features.values(nodes),
        lambda: weighted_svd(trial),
        lambda: weighted_gram(basis, weights),
        lambda: cho_factor(spd, lower=True, check_finite=False),
        lambda: (weights * (basis[0] @ spd[0])) @ basis[0],
    )


def least(run, repeats=3):
    """Processor seconds of a call, of several where one is short."""
    started = time.process_time()
    run()
    calls = max(1, int(0.02 / max(time.process_time() - started, 1e-6)))
    found = []
    for _ in range(repeats):
        started = time.process_time()
        for _ in range(calls):
            run()
        found.append((time.process_time() - started) / calls)
    return min(found)


def exponent(sizes, seconds):
    """The slope of log seconds over log sizes, through the largest half."""
    half = len(sizes) // 2
    return np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0]


def of_runs(counts):
    """Wall seconds of studies of these numbers of runs."""
    found = []
    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            study = sweep.write_study(Path(name), count, 2)
            command = [sweep.sys.executable, "-m", "evogt_study", "run", "-q", str(study)]
            found.append(sweep.watched([*command, "-o", str(Path(name) / "bench.nc"), "--workers", "2"])[0])
    return found


def drawn(axes, sizes, rows, label, expected):
    """Lines of `rows` over `sizes`, with their exponents, which are printed too."""
    for (name, seconds), wanted in zip(rows.items(), expected, strict=True):
        found = exponent(sizes, seconds)
        print(
            f"over {label}: {name}: exponent {found:.2f}, stated {wanted}; {', '.join(f'{s:.2e}' for s in seconds)} s"
        )
        axes.loglog(sizes, seconds, "o-", ms=3, label=f"{name} ({found:.1f})")
    axes.set(xlabel=label, ylabel="seconds")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=7)
    axes.xaxis.minorticks_off()
    axes.legend(fontsize=6)


def main():
    parser = argparse.ArgumentParser(description="How time grows; see the head of this file.")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--runs", type=int, nargs="+", default=[100, 1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--small", action="store_true", help="sizes that take no time, to see that it runs")
    options = parser.parse_args()
    Ns, Qs = (
        ([10, 20, 40], [80, 160, 320])
        if options.small
        else ([20, 40, 80, 160, 320, 640], [320, 640, 1280, 2560, 5120, 10_240])
    )
    figure, panels = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    with threadpool_limits(1):
        over_N = list(zip(*[[least(run) for run in stages(N, Qs[len(Qs) // 2])] for N in Ns], strict=True))
        over_Q = list(zip(*[[least(run) for run in stages(Ns[len(Ns) // 3], Q)] for Q in Qs], strict=True))
    drawn(panels[1], Ns, dict(zip(PAPER, over_N, strict=True)), "N or r", [each[0] for each in PAPER.values()])
    drawn(panels[2], Qs, dict(zip(PAPER, over_Q, strict=True)), "Q", [each[1] for each in PAPER.values()])
    if len(options.runs) > 1:
        walls = of_runs(options.runs)
        drawn(panels[0], options.runs, {"runs that return at once": walls}, "runs", [1])
    figure.savefig(options.picture, dpi=120)


if __name__ == "__main__":
    main()
