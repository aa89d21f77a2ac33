"""Functions on the unit cube whose Sobol indices are known, and how often 95 % intervals hold these."""

import sys
from functools import partial

import numpy as np
from scipy.stats import qmc

from evogt_study.inference import polynomial_chaos
from evogt_study.inference import sensitivity as sobol
from evogt_study.inference.intervals import Interval


def ishigami(u):
    """sin x_1 + 7 sin^2 x_2 + x_3^4 sin x_1 / 10 on (-pi, pi)^3."""
    x = (2.0 * u - 1.0) * np.pi
    return np.sin(x[:, 0]) + 7.0 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])


def _of_ishigami():
    one = 0.5 * (1.0 + 0.1 * np.pi**4 / 5.0) ** 2
    both = 0.01 * np.pi**8 * 8.0 / 225.0
    two = 49.0 / 8.0
    whole = one + two + both
    return np.array([one, two, 0.0]) / whole, np.array([one + both, two, both]) / whole


A = np.array([0.0, 1.0, 4.5, 9.0, 99.0, 99.0, 99.0, 99.0])


def g_function(u):
    """Product of (|4 u_j - 2| + a_j) / (1 + a_j)."""
    a = A[: u.shape[1]]
    return np.prod((np.abs(4.0 * u - 2.0) + a) / (1.0 + a), axis=1)


def _of_g_function(dimension):
    own = 1.0 / (3.0 * (1.0 + A[:dimension]) ** 2)
    whole = np.prod(1.0 + own) - 1.0
    return own / whole, np.array([own[j] * np.prod(1.0 + np.delete(own, j)) for j in range(dimension)]) / whole


FUNCTIONS = {
    "Ishigami": (ishigami, 3, _of_ishigami()),
    "g, 3 parameters": (g_function, 3, _of_g_function(3)),
    "g, 8 parameters": (g_function, 8, _of_g_function(8)),
}
"""Function, number of parameters, and first-order and total indices."""


def points(rule, count, dimension, seed):
    if rule == "random":
        return np.random.default_rng(seed).random((count, dimension))
    engine = {"sobol": qmc.Sobol, "latin_hypercube": qmc.LatinHypercube}[rule]
    return engine(dimension, rng=np.random.default_rng(seed)).random(count)


def saltelli(dimension, count, seed, rule="sobol"):
    """Blocks (count, 2 D + 2, D) with second order."""
    base = points(rule, count, 2 * dimension, seed)
    a, b, own = base[:, None, :dimension], base[:, None, dimension:], np.eye(dimension, dtype=bool)
    return np.concatenate([a, np.where(own, b, a), np.where(own, a, b), b], axis=1)


def failed(values, share, seed):
    """The values of which each is missing with probability `share`."""
    return np.where(np.random.default_rng(seed).random(values.shape) < share, np.nan, values)


def by_blocks(name, count, seed, share=0.05, rule="sobol"):
    function, dimension, _ = FUNCTIONS[name]
    blocks = saltelli(dimension, count, seed, rule)
    values = function(blocks.reshape(-1, dimension)).reshape(blocks.shape[:2])
    return sobol.indices(failed(values, share, seed + 10**6)[..., None], dimension, Interval())


def by_polynomials(name, count, seed, rule="sobol", share=0.05):
    function, dimension, _ = FUNCTIONS[name]
    sample = points(rule, count, dimension, seed)
    values = failed(function(sample), share, seed + 10**6)
    return polynomial_chaos.indices(values[None, :, None], sample, 0.95)[0]


def held(name, estimate, repetitions, first=0):
    """Shares of repetitions (2, D) whose intervals hold the first-order and total indices, and their median widths."""
    truth = np.array(FUNCTIONS[name][2])
    limits = []
    for seed in range(first, first + repetitions):
        found = estimate(seed)
        limits.append([found.first_ci, found.total_ci])
    low, high = np.moveaxis(np.array(limits), -1, 0)
    return ((low <= truth) & (truth <= high)).mean(axis=0), np.median(high - low, axis=0)


def estimates(name):
    """Estimates of a function's indices by the words of their sample."""
    counts = (64, 256, 512, 1024) if name.endswith("8 parameters") else (64, 256)
    yield from ((f"saltelli, {n} blocks", partial(by_blocks, name, n)) for n in counts)
    if len(counts) > 2:
        found = {n: partial(by_blocks, name, n, rule="random") for n in counts[:3]}
        yield from ((f"saltelli of random points, {n} blocks", estimate) for n, estimate in found.items())
    for rule in ("sobol", "latin_hypercube", "random"):
        yield from ((f"{rule}, {n}", partial(by_polynomials, name, n, rule=rule)) for n in (128, 512))


def main():
    """The table of docs/statistics.md, or the rows that begin with a word: 500 samples each, 5 % of the runs failed."""
    print("| function | sample | first order | total |\n|---|---|---|---|")
    for name in FUNCTIONS:
        for sample, estimate in estimates(name):
            if sample.startswith(tuple(sys.argv[1:]) or ""):
                shares, widths = held(name, estimate, 500)
                cells = [f"{s.min():.3f} ({w.max():.2f})" for s, w in zip(shares, widths, strict=True)]
                print(f"| {name} | {sample} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
