"""The price and the gain of common random streams: `python tests/methods/common_streams.py` prints the figures.

docs/random_numbers.md shows them.
"""

import numpy as np

import evogt_study as evs

CELLS, SEEDS, POINTS, REPEATS = 10, 500, 64, 200


def noisy(a, b, rng):
    """A number a and noise, whose size is b."""
    return a + b * rng.normal()


def differences_and_means(common):
    """Standard deviations over the seeds: of the difference of two cells, and of the mean of all cells."""
    study = evs.Study(noisy, axes={"a": range(CELLS), "seed": range(SEEDS)}, constants={"b": 1}, common=common)
    values = evs.run(study).value
    difference, mean = values.sel(a=1) - values.sel(a=0), values.mean("a")
    return [float(each.std("seed", ddof=1)) for each in (difference, mean)]


def share_of_b(common):
    """Median and 5 % and 95 % quantiles over the seeds of the share of b in the variance of a sample with one seed."""
    box = {name: {"from": -1, "to": 1} for name in "ab"}
    study = evs.Study(
        noisy, axes={"seed": range(REPEATS)}, designs=evs.sample("point", "sobol", POINTS, **box), common=common
    )
    data = evs.run(study)
    shares = [np.corrcoef(data.b, data.value.sel(seed=seed))[0, 1] ** 2 for seed in data.seed]
    return np.quantile(shares, [0.5, 0.05, 0.95]).tolist()


def main():
    """Print the table of the documentation."""
    for common in ("all", "none"):
        difference, mean = differences_and_means(common)
        median, low, high = share_of_b(common)
        print(f"| `{common}` | {difference:.2f} | {mean:.2f} | {median:.2f} ({low:.2f} to {high:.2f}) |")


if __name__ == "__main__":
    main()
