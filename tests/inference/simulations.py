"""What intervals cover, what they cost, and how often verdicts are wrong, by simulation from stated seeds.

`python tests/inference/simulations.py` prints the tables of docs/statistics.md; `test_simulations` holds them.
"""

import sys
from pathlib import Path

import numpy as np

from evogt_study.inference.comparisons import max_t
from evogt_study.inference.intervals import Interval, interval
from evogt_study.inference.order_statistics import HEAVY, tail_index
from evogt_study.inference.sequential import FIRST, Goal, look, next_sizes

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
"""How each is drawn, its mean, and its median; that of the last is found from a million draws."""
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


def drawn(name, size, samples=SAMPLES):
    """Samples of one distribution and size, the same for all methods."""
    rng = np.random.default_rng([SEED, size, list(DISTRIBUTIONS).index(name)])
    return DISTRIBUTIONS[name][0](rng, (samples, size))


def covered(name, size, how, samples=SAMPLES):
    """Share of intervals that hold the truth, and the median of their widths in its terms."""
    truth = DISTRIBUTIONS[name][1] if how.of == "mean" else median_of(name)
    values = drawn(name, size, samples)
    parts = [interval(values[start : start + PART, :, None], how) for start in range(0, samples, PART)]
    low, high = np.concatenate(parts).T
    return float(((low <= truth) & (truth <= high)).mean()), float(np.median((high - low) / truth))


def noted(name, size):
    """Share of samples by which the note on a heavy tail stands."""
    return float((tail_index(drawn(name, size)) < HEAVY).mean())


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


def family_wise_error(name, size, labels=4, simulations=2_000):
    """Share of verdicts on labels that do not differ in which some pair does."""
    rng = np.random.default_rng([SEED, size, 99])
    wrong = 0
    for _ in range(simulations):
        values = DISTRIBUTIONS[name][0](rng, (labels, size))
        limits = max_t(values, Interval(), ratios=True).limits
        wrong += bool(((limits[:, 0] > 1.0) | (limits[:, 1] < 1.0)).any())
    return wrong / simulations


def precision_studies(studies, goal, seed=SEED):
    """Simulated studies of the population: seeds used, and whether the interval holds the truth, (studies, cells)."""
    errors = np.load(POPULATION)["error"].astype(float)
    draws = np.random.default_rng(seed).integers(0, errors.shape[1], (studies, goal.max_seeds))
    truth = (np.mean if goal.statistic == "mean" else np.median)(errors, axis=1)
    used, sizes = np.zeros((studies, len(errors)), int), np.full((studies, len(errors)), FIRST)
    holds = np.zeros(used.shape, bool)
    while not used.all():
        size = int(sizes[used == 0].min())
        study, cell = np.nonzero((used == 0) & (sizes == size))
        _, low, high, half = look(errors[cell[:, None], draws[study, :size]][:, None, :], goal)
        end = (half <= goal.half_width) | (size >= goal.max_seeds)
        used[study[end], cell[end]] = size
        holds[study[end], cell[end]] = ((low <= truth[cell]) & (truth[cell] <= high))[end]
        sizes[study[~end], cell[~end]] = next_sizes(half[~end], size, goal)
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
            "; ".join("{:.3f} ({:.2f})".format(*covered(name, size, how)) for size in SIZES) for how in ways.values()
        ]
        print(f"| {name} | " + " | ".join([*cells, "; ".join(f"{noted(name, size):.2f}" for size in SIZES)]) + " |")
        sys.stdout.flush()
    print("\nmedian of 6 values, normal and lognormal 2:", covered("normal(5, 1)", 6, Interval("median"))[0],
          covered("lognormal 2", 6, Interval("median"))[0])  # fmt: skip
    print("\nthree pooled cells of 20 seeds, correlation: mean by seeds, by values; median by seeds, by values")
    for correlation in (0.0, 0.5, 0.99):
        print(correlation, *pooled(correlation, "mean"), *pooled(correlation, "median"))
    print("\nfamily-wise error of verdicts on four equal labels, 2,000 simulations each: n = 6; 10; 20")
    for name in DISTRIBUTIONS:
        print(name, [family_wise_error(name, size) for size in (6, 10, 20)])
    goal = Goal(half_width=0.1)
    used, holds = precision_studies(2_000, goal)
    equal = equal_seeds(0.1)
    print("\n2,000 precision studies at 10 %: coverage", holds.mean(), holds.mean(axis=0).round(3))
    print("seeds", used.mean(axis=0).round(0), "mean", used.mean(), "of equal seeds", equal, used.mean() / equal)


if __name__ == "__main__":
    main()
