"""What intervals cover, what they cost, and how often comparisons are wrong, by simulation from stated seeds.

`python tests/inference/simulations.py`, `simulations.py comparisons` and `simulations.py designs` print the tables of
docs/background/coverage.md; `test_simulations` holds them.
"""

import sys
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import scipy.stats
import xarray as xr

from evogt_study.analysis.statistics import summary
from evogt_study.inference import comparisons
from evogt_study.inference.intervals import (
    FIRST_SEEDS,
    Goal,
    Interval,
    choose_next_sizes,
    compute_look,
    compute_share_interval,
    decide,
    interval,
)
from evogt_study.inference.kernels import HEAVY_TAIL_INDEX, tail_index
from evogt_study.inference.polynomial_chaos import compute_shapley_effects
from evogt_study.inference.sensitivity import describe_dependence

SEED = 20_261_122
SAMPLES = 10_000
SIZES = (10, 20, 50)
PART = 2_000  # samples at a time


def contaminated(rng, shape):
    return np.where(rng.random(shape) < 0.05, 10.0, 1.0) * rng.lognormal(0.0, 0.5, shape)


DISTRIBUTIONS = {
    "normal(5, 1)": (lambda rng, shape: rng.normal(5.0, 1.0, shape), 5.0, 5.0),
    "lognormal 0.8": (lambda rng, shape: rng.lognormal(0.0, 0.8, shape), np.exp(0.32), 1.0),
    "lognormal 1.2": (lambda rng, shape: rng.lognormal(0.0, 1.2, shape), np.exp(0.72), 1.0),
    "lognormal 2": (lambda rng, shape: rng.lognormal(0.0, 2.0, shape), np.exp(2.0), 1.0),
    "gamma 1/2": (lambda rng, shape: rng.gamma(0.5, 1.0, shape), 0.5, 0.22746821155978636),
    "5 % ten times": (contaminated, 1.45 * np.exp(0.125), None),
}
"""How to draw each, its mean, and its median; the median of the last is of a million draws."""
PROTOTYPE = {
    "normal(5, 1)": (0.96, 0.95, 0.96), "lognormal 0.8": (0.91, 0.93, 0.92), "lognormal 1.2": (0.88, 0.91, 0.90),
    "lognormal 2": (0.77, 0.78, 0.84), "gamma 1/2": (0.94, 0.93, 0.94), "5 % ten times": (0.71, 0.71, 0.88),
}  # fmt: skip
"""Bootstrap-t alone, of n = 10, 20, 50, from 600 samples each: known to 0.01."""
POPULATION = Path(__file__).parent / "population.npz"
"""Errors of the 12 cells of studies/large/oscillatory_1d_seeds.toml over its 8,334 seeds, as its run wrote them."""


def median_of(name):
    draw, _, median = DISTRIBUTIONS[name]
    return median if median is not None else float(np.median(draw(np.random.default_rng(1), 2_000_000)))


def draw_samples(name, size, samples=SAMPLES):
    """Samples of one distribution and size, the same for all methods."""
    rng = np.random.default_rng([SEED, size, list(DISTRIBUTIONS).index(name)])
    return DISTRIBUTIONS[name][0](rng, (samples, size))


def measure_coverage(name, size, how, samples=SAMPLES):
    """Share of intervals that hold the truth, and the median of their widths in its terms."""
    truth = DISTRIBUTIONS[name][1] if how.of == "mean" else median_of(name)
    values = draw_samples(name, size, samples)
    parts = [interval(values[start : start + PART, :, None], how) for start in range(0, samples, PART)]
    low, high = np.concatenate(parts).T
    return float(((low <= truth) & (truth <= high)).mean()), float(np.median((high - low) / truth))


def share_of_notes(name, size):
    """Share of samples with a note on a heavy tail."""
    return float((tail_index(draw_samples(name, size)) < HEAVY_TAIL_INDEX).mean())


def pooled(correlation, of, seeds=20, cells=3, samples=2_000):
    """Coverage of intervals of lognormal(1.2) errors pooled over cells in which a seed's errors are correlated.

    First with seeds as units, then as if all values were independent.
    """
    rng = np.random.default_rng([SEED, round(100 * correlation)])
    common, own = rng.normal(size=(samples, seeds, 1)), rng.normal(size=(samples, seeds, cells))
    values = np.exp(1.2 * (np.sqrt(correlation) * common + np.sqrt(1.0 - correlation) * own))
    truth = np.exp(0.72) if of == "mean" else 1.0
    found = []
    for units in (values, values.reshape(samples, -1, 1)):
        low, high = interval(units, Interval(of)).T
        found.append(float(((low <= truth) & (truth <= high)).mean()))
    return tuple(found)


def coverage_with_failures(correlation, lost, how, incomplete, draws=1_000):
    """Coverage of the pooled mean of 12 setups and 20 seeds with failed runs, and the median width.

    how: runs fail at "random", or more often for a "seed" with large values.
    """
    rng = np.random.default_rng([SEED, round(100 * correlation), round(100 * lost)])
    z = correlation**0.5 * rng.normal(size=(draws, 1, 20)) + (1 - correlation) ** 0.5 * rng.normal(size=(draws, 12, 20))
    chance = 2 * lost / (1 + np.exp(-3 * z.mean(axis=1, keepdims=True))) if how == "seed" else lost
    y = np.where(rng.random(z.shape) < chance, np.nan, z + np.linspace(-1, 1, 12)[:, None])
    values = xr.DataArray(y[np.isfinite(y).any(axis=2).all(axis=1)], dims=("draw", "setup", "seed"))
    found = summary(values, ["setup", "seed"], statistics="ci", incomplete=incomplete, missing="drop")["ci"].values
    known = np.isfinite(found).all(axis=1)
    low, high = found[known].T
    return float(((low <= 0) & (high >= 0)).mean()), float(np.median(high - low)), float(known.mean())


DEPENDENCES = {
    "independent": lambda z: z,
    "correlation 0.3": lambda z: np.c_[z[:, 0], 0.3 * z[:, 0] + 0.91**0.5 * z[:, 1], z[:, 2]],
    "correlation 0.5": lambda z: np.c_[z[:, 0], 0.5 * z[:, 0] + 0.75**0.5 * z[:, 1], z[:, 2]],
    "without a quarter": lambda z: z[~((z[:, 0] > 0) & (z[:, 1] > 0))],
}
"""Points of three parameters from independent normal ones."""


def found_dependence(kind, points, draws=1_000):
    """Share of samples in which the test says that parameters depend on each other."""
    rng = np.random.default_rng([SEED, points])
    samples = (DEPENDENCES[kind](rng.normal(size=(2 * points, 3)))[:points] for _ in range(draws))
    return float(np.mean([bool(describe_dependence(each, "abc")) for each in samples]))


def coverage_of_shapley(draws=100):
    """Coverage of Shapley effects (1/2) and of Var E[y | x_1] / V (0.95) of y = x_1 + x_2, correlation 0.9."""
    rng, hits = np.random.default_rng(SEED), []
    for _ in range(draws):
        x = rng.normal(size=(256, 2)) @ np.array([[1, 0.9], [0, 0.19**0.5]])
        (effect, _), (alone, _) = compute_shapley_effects(x, x.sum(axis=1), 0.95)
        hits.append([effect[1] <= 0.5 <= effect[2], alone[1] <= 0.95 <= alone[2]])
    return np.mean(hits, axis=0).tolist()


def unit_mean(z, sigma):
    return np.exp(sigma * z - sigma**2 / 2)


def skewed(rng, shape, centre):
    """Two methods: a narrow one, and one whose logarithms are exponential, with the median or the mean `centre`."""
    x = rng.exponential(1, shape) - centre
    x[:, 0] = 0.1 * rng.standard_normal(shape[::2])
    return np.exp(x)


def scaled(shape, *values):
    return np.resize(values, shape[1])[None, :, None]


ALL, FIRST_TWO = ("win", "geometric_mean", "mean"), ("win", "geometric_mean")
LAWS = {
    "lognormal 0.8": (2, lambda r, s: np.exp(0.8 * r.standard_normal(s)), ALL),
    "lognormal 2": (4, lambda r, s: np.exp(2 * r.standard_normal(s)), ALL),
    "lognormal 0.8, correlated 0.9": (
        4, lambda r, s: np.exp(0.8 * (0.95 * r.standard_normal((s[0], 1, s[2])) + 0.32 * r.standard_normal(s))), ALL),
    "t3": (4, lambda r, s: r.standard_t(3, s), ("win", "mean")),
    "90/10": (2, lambda r, s: np.where(r.random(s) < 0.1, 10.0, 1.0) * np.exp(0.05 * r.standard_normal(s)), ALL),
    "Poisson 3": (2, lambda r, s: r.poisson(3, s) * 1.0, ("win", "mean")),
    "0/1, 0.9": (2, lambda r, s: (r.random(s) < 0.9) * 1.0, ("win", "mean")),
    "two lead, 8 far": (10, lambda r, s: np.exp(0.8 * r.standard_normal(s)) * scaled(s, 1, 1, *[1e4] * 8), ALL),
    "two lead, 8 near": (10, lambda r, s: np.exp(0.8 * r.standard_normal(s)) * scaled(s, 1, 1, *[2] * 8), ALL),
    "lognormal 0.1 and 2, equal medians": (2, lambda r, s: np.exp(r.standard_normal(s) * scaled(s, 0.1, 2)), FIRST_TWO),
    "lognormal 0.1 0.5 1 2, equal medians": (
        4, lambda r, s: np.exp(r.standard_normal(s) * scaled(s, 0.1, 0.5, 1, 2)), FIRST_TWO),
    "normal and t3": (
        2, lambda r, s: np.where(scaled(s, 1, 0) > 0, r.standard_normal(s), r.standard_t(3, s)), ("win", "mean")),
    "normal and bimodal": (
        2, lambda r, s: r.standard_normal(s) + scaled(s, 0, 3) * np.sign(r.random(s) - 0.5), ("win", "mean")),
    "skewed logarithms, equal medians": (2, lambda r, s: skewed(r, s, np.log(2)), ("win",)),
    "skewed logarithms, equal geometric means": (2, lambda r, s: skewed(r, s, 1.0), ("geometric_mean",)),
    "lognormal 0.1 and 0.8, equal means": (
        2, lambda r, s: unit_mean(r.standard_normal(s), scaled(s, 0.1, 0.8)), ("mean",)),
    "lognormal 0.1 and 1.2, equal means": (
        2, lambda r, s: unit_mean(r.standard_normal(s), scaled(s, 0.1, 1.2)), ("mean",)),
    "lognormal 0.1 and 2, equal means": (2, lambda r, s: unit_mean(r.standard_normal(s), scaled(s, 0.1, 2)), ("mean",)),
}  # fmt: skip
"""Number of methods, how to draw them (studies, methods, seeds), and the estimands in which the first places tie."""
SEEDS = (3, 5, 6, 10, 20, 50)


def leaders(studies, estimand="win"):
    """Number of the significant leader of each study (studies, L, n), -1 without one: as `evs.compare` finds it."""
    found = []
    for values in studies:
        names = tuple(map(str, range(len(values))))
        if estimand == "win":
            losses = np.where(np.isnan(values), np.inf, values)[..., None]
            pairs = comparisons.compare_wins(
                comparisons.compute_unit_margins(losses, np.ones(losses.shape, dtype=bool))
            )
        else:
            units = np.log(values) if estimand == "geometric_mean" else values
            pairs = comparisons.compare_means(units, 1, estimand, np.isnan(values).any(axis=1), names, "seed")
        lead, rivals = comparisons.find_leader(pairs, 0.05, np.arange(len(values)), values)
        significant = pairs.p[lead, rivals[0]] <= 0.05 and (lead, rivals[0]) not in pairs.reason
        found.append(lead if significant else -1)
    return np.array(found)


def tukey(studies):
    """Tukey's intervals of logarithms with seeds as blocks: the leader of each study, -1 without one."""
    x = np.log(studies)
    _, count, n = x.shape
    rest = x - x.mean(-1, keepdims=True) - x.mean(1, keepdims=True) + x.mean((1, 2), keepdims=True)
    freedom, means = (count - 1) * (n - 1), np.sort(x.mean(-1))
    quantile = scipy.stats.studentized_range.ppf(0.95, count, freedom)
    apart = quantile * np.sqrt((rest**2).sum((1, 2)) / freedom / n)
    return np.where(means[:, 1] - means[:, 0] > apart, x.mean(-1).argmin(-1), -1)


def nemenyi(studies):
    """Friedman's mean ranks and Nemenyi's critical difference."""
    _, count, n = studies.shape
    ranks = scipy.stats.rankdata(studies, axis=1).mean(-1)
    apart = scipy.stats.studentized_range.ppf(0.95, count, np.inf) * np.sqrt(count * (count + 1) / (12 * n))
    return np.where(np.diff(np.sort(ranks)[:, :2])[:, 0] > apart, ranks.argmin(-1), -1)


def wilcoxon(studies):
    """Signed-rank tests of all pairs, adjusted by Holm's method: the method with the least median leads."""
    pairs, found = list(combinations(range(studies.shape[1]), 2)), []
    for values in studies:
        p = [scipy.stats.wilcoxon(d).pvalue if (d := values[i] - values[j]).any() else 1.0 for i, j in pairs]
        lead = int(np.median(values, -1).argmin())
        adjusted = zip(comparisons.adjust_p_values(np.array(p)), pairs, strict=True)
        found.append(lead if all(each <= 0.05 for each, pair in adjusted if lead in pair) else -1)
    return np.array(found)


OTHERS = {"Tukey, logarithms": tukey, "Nemenyi": nemenyi, "Wilcoxon, Holm": wilcoxon}
"""Other procedures, for comparison.  They are no part of the package."""


def find_leaders(studies, way):
    return OTHERS[way](studies) if way in OTHERS else leaders(studies, way)


def false_leaders(name, way, seeds, studies=1_000):
    """Share of studies with a significant leader although the first places tie."""
    count, draw, _ = LAWS[name]
    return float((find_leaders(draw(np.random.default_rng(1), (studies, count, seeds)), way) >= 0).mean())


def power(count, seeds, way, studies=1_000):
    """Share of studies in which the method that is five times better (lognormal 0.8) is the significant leader."""
    values = np.exp(0.8 * np.random.default_rng(2).standard_normal((studies, count, seeds)))
    values[:, 0] /= 5.0
    return float((find_leaders(values, way) == 0).mean())


def failing_leaders(seeds, studies=1_000, omit=False):
    """Two methods of one distribution; the first fails if its value is large (24 %).  Shares in which each leads."""
    values = np.exp(np.random.default_rng(3).standard_normal((studies, 2, seeds)))
    values[:, 0] = np.where(values[:, 0] > 2.0, np.nan, values[:, 0])
    whole = (each[:, ~np.isnan(each).any(axis=0)] for each in values)
    found = np.concatenate([leaders(each[None]) for each in whole]) if omit else leaders(values)
    return float((found == 0).mean()), float((found == 1).mean())


def coverage_of_share(share, units, per_unit, correlation, draws=2_000):
    """Coverage of the interval of a share, pooled over values of a unit that are correlated."""
    rng = np.random.default_rng([SEED, units, per_unit, round(100 * correlation)])
    common = rng.random((draws, units, 1)) < share
    own = rng.random((draws, units, per_unit)) < share
    values = np.where(rng.random(own.shape) < np.sqrt(correlation), common, own) * 1.0
    low, high = compute_share_interval(values, 0.95).T
    return float(((low <= share) & (share <= high)).mean())


STOPS = {
    "0/1, 0.95, 0.05": (lambda r: (r.random(2000) < 0.95) * 1.0, 0.95, Goal(half_width=0.05, relative=False)),
    "0/1, 0.99, 0.05": (lambda r: (r.random(2000) < 0.99) * 1.0, 0.99, Goal(half_width=0.05, relative=False)),
    "5 % ten times, 20 %": (lambda r: np.where(r.random(2000) < 0.05, 10.0, 1.0), 1.45, Goal(half_width=0.2)),
    "lognormal 0.8, 10 %": (lambda r: np.exp(0.8 * r.standard_normal(2000)), np.exp(0.32), Goal()),
    "30 % fail, 10 %": (
        lambda r: np.where(r.random(2000) < 0.3, np.nan, np.exp(0.8 * r.standard_normal(2000))), np.exp(0.32), Goal()),
    "all fail": (lambda r: np.full(2000, np.nan), 1.0, Goal()),
    "constant": (lambda r: np.full(2000, 3.7), 3.7, Goal()),
}  # fmt: skip


def measure_stopping(name, studies=100):
    """Share of known setups whose interval holds the truth, median seeds, and the reasons to stop."""
    draw, truth, goal = STOPS[name]
    rng, held, sizes, reasons = np.random.default_rng(6), [], [], {}
    for _ in range(studies):
        made = decide(draw(rng), goal)
        sizes.append(made.wanted)
        reasons[made.reason] = reasons.get(made.reason, 0) + 1
        if made.reason == "known":
            held.append(made.looks[-1].low <= truth <= made.looks[-1].high)
    return float(np.mean(held)) if held else np.nan, float(np.median(sizes)), reasons


def coverage_of_std(name, size, samples=SAMPLES):
    """Coverage of the default interval of the standard deviation."""
    rng = np.random.default_rng([SEED, size, 7])
    values = DISTRIBUTIONS[name][0](rng, (samples, size))
    truth = float(DISTRIBUTIONS[name][0](np.random.default_rng(2), (20_000_000,)).std())
    low, high = interval(values[..., None], Interval("std")).T
    return float(((low <= truth) & (truth <= high)).mean())


def precision_studies(studies, goal, seed=SEED):
    """Simulated studies of the population: seeds used, and whether the interval holds the truth, (studies, cells)."""
    errors = np.load(POPULATION)["error"].astype(float)
    draws = np.random.default_rng(seed).integers(0, errors.shape[1], (studies, goal.max_seeds))
    truth = (np.mean if goal.statistic == "mean" else np.median)(errors, axis=1)
    used, sizes = np.zeros((studies, len(errors)), int), np.full((studies, len(errors)), FIRST_SEEDS)
    holds = np.zeros(used.shape, bool)
    while not used.all():
        size = int(sizes[used == 0].min())
        study, cell = np.nonzero((used == 0) & (sizes == size))
        _, low, high, half = compute_look(errors[cell[:, None], draws[study, :size]][:, None, :], goal)
        end = (half <= goal.half_width) | (size >= goal.max_seeds)
        used[study[end], cell[end]] = size
        holds[study[end], cell[end]] = ((low <= truth[cell]) & (truth[cell] <= high))[end]
        sizes[study[~end], cell[~end]] = choose_next_sizes(half[~end], size, goal)
    return used, holds


def equal_seeds(half_width, studies=200):
    """Seeds that all cells need alike for a mean half width of the widest cell's plain 95 % interval."""
    errors = np.load(POPULATION)["error"].astype(float)
    rng = np.random.default_rng([SEED, 7])
    size = 200
    while True:
        values = errors[:, rng.integers(0, errors.shape[1], (studies, size))]
        low, high = np.moveaxis(interval(values[..., None], Interval()), -1, 0)
        if ((high - low) / 2.0 / values.mean(axis=-1)).max(axis=0).mean() <= half_width:
            return size
        size = int(np.ceil(1.03 * size))


def main():
    print(f"nominal 95 %, {SAMPLES:,} samples of each size n = 10; 20; 50 from seed {SEED}: coverage (median width)\n")
    ways = {
        "mean, Student": Interval(method="student"), "mean, percentile": Interval(method="percentile"),
        "mean, default": Interval(), "median, default": Interval("median"),
    }  # fmt: skip
    print("| distribution | " + " | ".join(ways) + " | noted as heavy |")
    print("|---" * (len(ways) + 2) + "|")
    for name in DISTRIBUTIONS:
        cells = [
            "; ".join("{:.3f} ({:.2f})".format(*measure_coverage(name, size, how)) for size in SIZES)
            for how in ways.values()
        ]
        print(
            f"| {name} | "
            + " | ".join([*cells, "; ".join(f"{share_of_notes(name, size):.2f}" for size in SIZES)])
            + " |"
        )
        sys.stdout.flush()
    print("\nmedian of 6 values, normal and lognormal 2:", measure_coverage("normal(5, 1)", 6, Interval("median"))[0],
          measure_coverage("lognormal 2", 6, Interval("median"))[0])  # fmt: skip
    print("\nthree pooled cells of 20 seeds, correlation: mean by seeds, by values; median by seeds, by values")
    for correlation in (0.0, 0.5, 0.99):
        print(correlation, *pooled(correlation, "mean"), *pooled(correlation, "median"))
    goal = Goal(half_width=0.1)
    used, holds = precision_studies(2_000, goal)
    equal = equal_seeds(0.1)
    print("\n2,000 precision studies at 10 %: coverage", holds.mean(), holds.mean(axis=0).round(3))
    print("seeds", used.mean(axis=0).round(0), "mean", used.mean(), "of equal seeds", equal, used.mean() / equal)


def print_comparisons():
    """Tables of comparisons: false leaders, power, failures; shares and the stopping rule."""
    warnings.simplefilter("ignore")  # of SciPy's Wilcoxon test of ties
    print("| distribution, methods | estimand | " + " | ".join(f"n = {n}" for n in SEEDS) + " |")
    print("|---" * (len(SEEDS) + 2) + "|")
    for name, (count, _, estimands) in LAWS.items():
        for estimand in estimands:
            cells = (f"{100 * false_leaders(name, estimand, n):.1f}" for n in SEEDS)
            print(f"| {name}, {count} | {estimand} | {' | '.join(cells)} |", flush=True)
    print("\n| methods, seeds | " + " | ".join([*ALL, *OTHERS]) + " |\n" + "|---" * 7 + "|")
    for count, n in ((2, 3), (2, 5), (2, 6), (4, 6), (4, 10), (10, 10), (10, 15), (10, 20)):
        cells = (
            f"{100 * power(count, n, each, 100 if each == 'Wilcoxon, Holm' else 1_000):.0f}" for each in (*ALL, *OTHERS)
        )
        print(f"| {count}, {n} | " + " | ".join(cells) + " |", flush=True)
    print("\n| distribution, methods | " + " | ".join(OTHERS) + " |\n|---|---|---|---|")
    for name, (count, _, estimands) in LAWS.items():
        ways = {way: ("geometric_mean" if way.startswith("Tukey") else "win") in estimands for way in OTHERS}
        cells = (
            "; ".join(f"{100 * false_leaders(name, way, n, 200):.1f}" for n in SIZES) if fits else ""
            for way, fits in ways.items()
        )
        print(f"| {name}, {count} | {' | '.join(cells)} |", flush=True)
    print("\nfailures, n: share in which the failing, the other method leads")
    for n in (10, 20, 50, 200):
        print(n, "{:.3f} {:.3f}; omitted {:.3f} {:.3f}".format(*failing_leaders(n), *failing_leaders(n, omit=True)))
    print("\nshares 0.5, 0.9, 0.95, 0.99: coverage")
    pooled = [(n, k, rho) for n in (6, 20) for k in (3, 12) for rho in (0, 0.3, 1)]
    for units, k, rho in ((5, 1, 0), (10, 1, 0), (20, 1, 0), (50, 1, 0), *pooled):
        print(units, k, rho, [round(coverage_of_share(p, units, k, rho), 3) for p in (0.5, 0.9, 0.95, 0.99)])
    print("\nstopping rule: held, seeds, reasons")
    for name in STOPS:
        print(name, *measure_stopping(name))
    print("\nstandard deviation, n = 10, 20, 50")
    for name in DISTRIBUTIONS:
        print(name, [round(coverage_of_std(name, n), 3) for n in SIZES])


def print_designs():
    """Tables of pooled means with failed runs, of the test of independence, and of Shapley effects."""
    print("| correlation, failed | omit | setups | blocks |\n|---|---|---|---|")
    for rho in (0.0, 0.9):
        for lost, how in ((0.05, "random"), (0.24, "random"), (0.24, "seed")):
            found = (coverage_with_failures(rho, lost, how, each) for each in ("omit", "setups", "blocks"))
            cells = [f"{c:.3f} ({w:.2f})" + (f" in {known:.0%}" if known < 1 else "") for c, w, known in found]
            print(f"| {rho}, {lost:.0%} ({how}) | {' | '.join(cells)} |", flush=True)
    print("\n| three parameters | 32 points | 64 | 128 | 256 |\n|---|---|---|---|---|")
    for kind in DEPENDENCES:
        cells = (f"{100 * found_dependence(kind, n):.1f}" for n in (32, 64, 128, 256))
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)
    print(
        "\ny = x_1 + x_2 of correlation 0.9: coverage of the Shapley effect, of Var E[y | x_1] / V",
        coverage_of_shapley(),
    )


if __name__ == "__main__":
    {"comparisons": print_comparisons, "designs": print_designs}.get("".join(sys.argv[1:]), main)()
