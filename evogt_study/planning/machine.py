"""What each kind of work takes on a machine: a nominal one, and this one, measured in a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from threadpoolctl import threadpool_limits

from evogt_study.baselines.cost import FACTORISED
from evogt_study.numerics.cost import EIGH_HALF, SVD_HALF, Work, counts, product
from evogt_study.numerics.cost import qr as qr_work

BUDGET = 0.06
"""Seconds for which each of a dozen operations is measured, at most."""
REPETITIONS = 5


@dataclass(frozen=True)
class Machine:
    """Seconds of one unit of each kind of `Work`."""

    products: float
    streamed: float
    qr: float
    svd: float
    eigh: float
    cholesky: float
    activations: float
    formulas: float
    entries: float
    sparse: float
    calls: float

    def seconds(self, work: Work) -> float:
        """Time of `work` on one core."""
        return float(sum(count * unit for count, unit in zip(counts(work), _units(self), strict=True)))


_units = attrgetter(*[field.name for field in fields(Work)])
NOMINAL = Machine(
    products=2.1e-11, streamed=2e-10, qr=5e-11, svd=2e-10, eigh=6e-11, cholesky=5e-11,
    activations=1.8e-9, formulas=1.3e-8, entries=8e-10, sparse=8e-10, calls=1.2e-6,
)  # fmt: skip
"""A machine on paper, so that what is ordered by cost is ordered alike everywhere and every time."""


def calibrated() -> Machine:
    """This machine, with one BLAS thread, by operations of the method's shapes; takes less than a second.

    Times are those of the thread itself, the best of several: what else the machine does is no part of them.
    """
    rng = np.random.default_rng(0)
    with threadpool_limits(1):
        calls, entries = _calls(), _entries(rng)
        wide = [(204, 1280, 960), (1024, 320, 320), (1092, 240, 60), (60, 60, 60)]
        works = [product(*shape) for shape in wide]
        seconds = sum(_product(rng, *shape) for shape in wide)
        touched = entries * sum(work.entries for work in works)
        return Machine(
            products=max(seconds - touched, seconds / 2) / sum(work.products for work in works),
            streamed=_streamed(rng),
            qr=_best(_qr(rng, 1600, 150)) / qr_work(1600, 150).qr,
            svd=_best(_svd(rng, 180)) / (180**2 * (180 + SVD_HALF)),
            eigh=_best(_eigh(rng, 180)) / (180**2 * (180 + EIGH_HALF)),
            cholesky=_best(_cholesky(rng, 100)) / (100**3 / 3.0),
            activations=_elementwise(np.tanh, rng),
            formulas=_elementwise(np.sin, rng),
            entries=entries,
            sparse=_sparse(),
            calls=calls,
        )


@cache
def this_machine() -> Machine:
    """`calibrated`, once a process."""
    return calibrated()


def _best(operation: Callable[[], Any]) -> float:
    """Least seconds of one call of `operation`."""
    started, least = time.perf_counter(), float("inf")
    for _ in range(REPETITIONS):
        before = time.thread_time()
        operation()
        least = min(least, time.thread_time() - before)
        if time.perf_counter() - started > BUDGET:
            break
    return least


def _calls() -> float:
    """A few small operations with a slice and a list, as code around arrays has them."""
    x = np.ones(8)

    def several() -> None:
        for _ in range(1000):
            np.concatenate([x, x])[:8] * x

    return _best(several) / 1000


def _product(rng: np.random.Generator, m: int, k: int, n: int) -> float:
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    return _best(lambda: a @ b)


def _streamed(rng: np.random.Generator) -> float:
    matrix, vector = rng.standard_normal((1600, 150)), rng.standard_normal(150)
    return _best(lambda: [matrix @ vector for _ in range(20)]) / (20 * matrix.size)


def _elementwise(function: Callable[[Any], Any], rng: np.random.Generator) -> float:
    values = rng.standard_normal(1 << 17)
    return _best(lambda: function(values)) / values.size


def _entries(rng: np.random.Generator) -> float:
    """A product of two arrays, of a size that stays in cache and of one that does not; no memory is asked for."""
    left, right, result = np.split(rng.random(3 << 20), 3)
    part = slice(0, 1 << 15)
    in_cache = _best(lambda: [np.multiply(left[part], right[part], out=result[part]) for _ in range(16)]) / (16 << 15)
    return (in_cache + _best(lambda: np.multiply(left, right, out=result)) / left.size) / 2.0


def _sparse() -> float:
    """LU of a five-point Laplacian, as the finite elements' matrices are factorised."""
    from evogt_study.baselines.sparse_solve import factorised  # SciPy's sparse solvers take a while to import

    points = 40
    second = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(points, points))
    laplacian = scipy.sparse.csc_array(scipy.sparse.kronsum(second, second), dtype=float)
    return _best(lambda: factorised(laplacian)) / (FACTORISED[2] * points**2)


def _qr(rng: np.random.Generator, m: int, n: int) -> Callable[[], Any]:
    matrix = rng.standard_normal((m, n))
    return lambda: scipy.linalg.qr(matrix, mode="r", check_finite=False)


def _svd(rng: np.random.Generator, n: int) -> Callable[[], Any]:
    triangle = np.triu(rng.standard_normal((n, n)))
    return lambda: np.linalg.svd(triangle)


def _eigh(rng: np.random.Generator, n: int) -> Callable[[], Any]:
    matrix = rng.standard_normal((n, n))
    return lambda: np.linalg.eigh(matrix + matrix.T)


def _cholesky(rng: np.random.Generator, n: int) -> Callable[[], Any]:
    matrix = rng.standard_normal((n, n))
    definite = matrix @ matrix.T + n * np.eye(n)
    return lambda: scipy.linalg.cho_factor(definite, lower=True, check_finite=False)
