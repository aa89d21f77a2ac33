"""How near the dominant stages come to the machine: GFLOP/s of each beside a plain matrix product of like shape.

    python tests/benchmarks/kernels.py [--dimension 1|2|3] [--repeats N]

One core, one BLAS thread, best of N in processor seconds; stage
and product take turns, so that both see the same machine.  Operations are those of the products and factorisations
alone; a stage does more (tanh, scaling, copies), and what is between its figure and the product's is that.  Another
process measures the stages as on a processor without AVX-512, by NPY_DISABLE_CPU_FEATURES and OPENBLAS_CORETYPE.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from evogt_study import pde
from evogt_study.pde.baselines.finite_difference import sine_transform
from evogt_study.pde.dictionaries.base import BLOCK_ENTRIES
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.cross_grid import evaluate_basis
from evogt_study.pde.galerkin.retained_space import retain, trial_functions, weighted_svd
from evogt_study.pde.galerkin.stiffness import weighted_gram
from evogt_study.pde.galerkin.validation import feature_sums
from evogt_study.pde.integrators import ImplicitMidpoint, StabilizedSemiImplicit
from evogt_study.pde.numerics.quadrature import QuadratureRule
from evogt_study.pde.numerics.time_grid import TimeGrid
from evogt_study.pde.pipeline import assemble
from evogt_study.pde.problems import FormulaProblem


@dataclass(frozen=True)
class Sizes:
    """N features, N1 neurons before them, points a direction of assembly, validation and assessment, and gamma."""

    N: int
    N1: int
    assembly: int
    validation: int
    assessment: int
    gamma: float


PAPER = {
    1: Sizes(180, 720, 512, 4096, 640, 30.0),
    2: Sizes(180, 720, 42, 64, 56, 8.0),
    3: Sizes(320, 1280, 20, 22, 24, 3.5),
}
"""Of the paper's studies target_1d, nonseparable_2d and nonseparable_3d."""
SMALL = {1: Sizes(20, 40, 60, 100, 80, 8.0), 2: Sizes(20, 40, 10, 12, 14, 4.0), 3: Sizes(20, 40, 6, 7, 8, 2.0)}


@dataclass(frozen=True)
class Kernel:
    """A stage, the operations of its products and factorisations, a product (m, k, n) of like shape, and its bound."""

    name: str
    run: Callable[[], object]
    operations: float
    product: tuple[int, int, int]
    bound: str


def kernels(dimension: int, sizes: Sizes) -> list[Kernel]:
    """The dominant stages at these sizes."""
    d, N, N1 = dimension, sizes.N, sizes.N1
    cube = UnitCube(d)
    rule, validation, assessment = (
        cube.quadrature(QuadratureRule(name, points))
        for name, points in (
            ("gauss_legendre", sizes.assembly),
            ("composite_midpoint" if d == 1 else "gauss_legendre", sizes.validation),
            ("gauss_legendre", sizes.assessment),
        )
    )
    layered = pde.Dictionary("gtransnet", N, sizes.gamma, N1=N1).sample(0, d)
    single = pde.Dictionary("transnet", N, sizes.gamma).sample(0, d)
    trial = trial_functions(cube, layered, rule)
    svd = weighted_svd(trial)
    space = retain(trial, svd, 1e-12)
    sines = "*".join(f"sin(pi*{x})" for x in "xyz"[:d])
    moving = FormulaProblem(d, exact=f"exp(-t)*{sines}", diffusion="2 + sin(t)*cos(x)")()
    flow = FormulaProblem(d, initial=sines, diffusion="1/1600", potential="(u**2 - 1)**2/4")()
    system, flowing, grid = assemble(space, moving), assemble(space, flow), TimeGrid.of(0.2, 0.01, 2)
    damped, long = StabilizedSemiImplicit(2.0), TimeGrid.of(1.0, 0.01, 2)
    sums = feature_sums(layered, validation.nodes, uniform=d == 1)
    Q, V, A, r = len(rule.nodes), len(sums.psi), len(assessment.nodes), space.rank
    states = np.random.default_rng(0).standard_normal((26, N))
    block = max(32, (2 if N1 * N > BLOCK_ENTRIES else 1) * BLOCK_ENTRIES // N1)
    field = np.random.default_rng(0).standard_normal((160, 160))
    return [
        Kernel("features and gradients, two layers", lambda: trial_functions(cube, layered, rule),
               2.0 * Q * N1 * N * (1 + d), (min(block, Q), N1, d * N), "product; tanh of the first layer"),
        Kernel("features, two layers, validation", lambda: feature_sums(layered, validation.nodes, d == 1),
               2.0 * V * N1 * N, (min(block, V), N1, N), "product; tanh of the first layer"),
        Kernel("features and slopes, one layer", lambda: trial_functions(cube, single, rule), 2.0 * Q * N * (1 + d),
               (Q, d + 1, N), "tanh and memory"),
        Kernel("weighted SVD (QR, SVD of R)", lambda: weighted_svd(trial), 2.0 * Q * N**2 - 2 / 3 * N**3 + 12.0 * N**3,
               (N, N, N), "LAPACK's panels"),
        Kernel("retained values and gradients", lambda: retain(trial, svd, 1e-12), 2.0 * Q * N * r * (1 + d),
               (min(512, Q), N, r), "product; memory of the gradients"),
        Kernel("stiffness term", lambda: weighted_gram(space.gradients, rule.weights), 1.0 * d * Q * r**2,
               (r, min(1024, Q), r), "symmetric product, half the operations"),
        Kernel("basis on the assessment rule", lambda: evaluate_basis(space, assessment),
               2.0 * A * N1 * N * (1 + d) + 2.0 * A * N * r * (1 + d) + 1.0 * A * r**2,
               (min(block, A), N1, d * N), "product"),
        Kernel("20 steps, time-dependent operator", lambda: ImplicitMidpoint().march(system, grid),
               20 * (r**3 / 3 + 10.0 * r**2),
               (r, r, r), "Cholesky of (r, r); calls where r is small"),
        Kernel("100 steps, gradient flow", lambda: damped.march(flowing, long),
               100 * 4.0 * Q * r + 10.0 * r**3, (Q, r, 1), "memory: the retained basis, read twice a step; eigenbasis"),
        Kernel("26 states at validation nodes", lambda: sums(states), 2.0 * 26 * N * V, (26, N, V),
               "memory" if d > 1 else "interpolation to the nodes"),
        Kernel("sine transform, 160 x 160", lambda: sine_transform(field), 2.0 * 160**3, (80, 80, 160),
               "product, folded"),
    ]  # fmt: skip


def best(run: Callable[[], object], seconds: float) -> float:
    """The smaller of `seconds` and the processor seconds of one call."""
    started = time.process_time()
    run()
    return min(seconds, max(time.process_time() - started, 1e-9))


def measured(kernel: Kernel, repeats: int) -> tuple[float, float, float]:
    """Seconds of the stage, its GFLOP/s, and those of the product."""
    m, k, n = kernel.product
    rng = np.random.default_rng(0)
    left, right, out = rng.standard_normal((m, k)), rng.standard_normal((k, n)), np.empty((m, n))
    calls = max(1, round(2e7 / (m * k * n)))  # a single small product is shorter than the clock's step

    def products() -> None:
        for _ in range(calls):
            np.matmul(left, right, out=out)

    stage = product = np.inf
    for _ in range(repeats):
        stage, product = best(kernel.run, stage), best(products, product)
    return stage, kernel.operations / stage / 1e9, 2.0 * m * k * n * calls / product / 1e9


def without_avx512(arguments: list[str]) -> list[float]:
    """Seconds of all stages in a process that uses no AVX-512."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    wide = [name for name in __cpu_dispatch__ if ("AVX512" in name or "V4" in name) and __cpu_features__[name]]
    environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(wide), "OPENBLAS_CORETYPE": "Haswell"}
    command = [sys.executable, __file__, "--seconds", *arguments]
    ended = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    seconds: list[float] = json.loads(ended.stdout)
    return seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimension", type=int, choices=(1, 2, 3), action="append")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="sizes that take no time, to see that it runs")
    parser.add_argument("--seconds", action="store_true", help="seconds of the stages alone, as JSON")
    given = parser.parse_args()
    wanted = [
        (dimension, kernel)
        for dimension in given.dimension or (1, 2, 3)
        for kernel in kernels(dimension, (SMALL if given.small else PAPER)[dimension])
    ]
    if given.seconds:
        print(json.dumps([measured(kernel, given.repeats)[0] for _, kernel in wanted]))
        return
    elsewhere = without_avx512(sys.argv[1:])
    header = ("d", "stage", "ms", "without AVX-512", "GFLOP/s", "product (m, k, n)", "its GFLOP/s", "ratio", "bound by")
    print("| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
    for (dimension, kernel), narrow in zip(wanted, elsewhere, strict=True):
        seconds, rate, limit = measured(kernel, given.repeats)
        print(
            f"| {dimension} | {kernel.name} | {1e3 * seconds:.2f} | {1e3 * narrow:.2f} | {rate:.1f} | {kernel.product} "
            f"| {limit:.1f} | {rate / limit:.2f} | {kernel.bound} |"
        )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
