"""Functions on the unit cube whose Sobol indices are known, and how often 95 % intervals hold these."""

import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
from scipy.stats import qmc

from evogt_study.inference.polynomial_chaos import Bases, compute_fit_moments
from evogt_study.inference.sensitivity import compute_block_moments, fill_gaps


def named(moments, d, unseen=0.0, fresh=False):
    """First-order, total and second-order indices and the share of the seed, with their limits."""
    *parts, seed = moments.shares(fresh=fresh, of_run=True, confidence=0.95)
    table = np.array(parts)
    first, total, second = table[:d], table[d : 2 * d], table[2 * d :]
    return SimpleNamespace(
        first=first[:, 0], first_ci=first[:, 1:], total=total[:, 0], total_ci=total[:, 1:], second=second[:, 0],
        seed=seed[0], seed_ci=np.array(seed[1:]), n_ok=moments.n_ok,
        unexplained=unseen / (moments.variance + moments.seed),
    )  # fmt: skip


def indices_of_blocks(values, d, fresh=False):
    points = values.reshape(-1, values.shape[-1]).copy()
    known = np.isfinite(points).any(axis=1)
    points[known] = fill_gaps(points[known], common=not fresh, least=1)
    return named(compute_block_moments(points.reshape(values.shape), d), d, fresh=fresh)


def indices_of_sample(values, sample):
    """Known indices of values (n, R) at points (n, D); some points have no value."""
    known = np.isfinite(values).any(axis=1)
    runs = 1.0 / (1.0 / np.isfinite(values[known]).sum(axis=1)).mean()
    y = fill_gaps(values[known], common=True, least=1)
    moments, unseen = compute_fit_moments(Bases(sample[known]), sample.shape[1], y, runs, fresh=False)
    return named(moments, sample.shape[1], unseen)


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


SAMPLES = 100


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
    return indices_of_blocks(failed(values, share, seed + 10**6)[..., None], dimension)


def by_polynomials(name, count, seed, rule="sobol", share=0.05):
    function, dimension, _ = FUNCTIONS[name]
    sample = points(rule, count, dimension, seed)
    values = failed(function(sample), share, seed + 10**6)
    return indices_of_sample(values[:, None], sample)


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
    yield from ((f"saltelli, {n} blocks", partial(by_blocks, name, n)) for n in (64, 256))
    if name.endswith("8 parameters"):
        yield "saltelli of random points, 64 blocks", partial(by_blocks, name, 64, rule="random")
    for rule in ("sobol", "latin_hypercube", "random"):
        yield f"{rule}, 128", partial(by_polynomials, name, 128, rule=rule)


def main():
    """Print the table of docs/background/coverage.md, or its rows that begin with a string (5 % failed runs)."""
    print("| function | sample | first order | total |\n|---|---|---|---|")
    for name in FUNCTIONS:
        for sample, estimate in estimates(name):
            if sample.startswith(tuple(sys.argv[1:]) or ""):
                shares, widths = held(name, estimate, SAMPLES)
                cells = [f"{s.min():.3f} ({w.max():.2f})" for s, w in zip(shares, widths, strict=True)]
                print(f"| {name} | {sample} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
