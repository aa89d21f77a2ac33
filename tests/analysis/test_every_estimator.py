"""What every public estimator covers, for distributions x designs x patterns of failures, with the last results."""

import itertools
import warnings

import numpy as np
import pytest
import xarray as xr

import evogt_study as evs
from evogt_study.analysis.performance import share
from evogt_study.analysis.statistics import IncompleteWarning

SETUPS, SEEDS, DRAWS = 4, 20, 100
DISTRIBUTIONS = {
    "normal": (lambda z: 5.0 + z, 5.0, 5.0),
    "lognormal 0.8": (lambda z: np.exp(0.8 * z), np.exp(0.32), 1.0),
    "0/1": (lambda z: (z < 1.2815515655446004) * 1.0, 0.9, 1.0),
}
"""Values of normal numbers, their mean and their median."""
MEAN_SHARES = {"normal": 0.5, "lognormal 0.8": 0.6554217416103242, "0/1": 0.1}
"""P(Y <= mean)."""
DESIGNS = {"common streams": 0.9, "fresh streams": 0.0}
"""Correlation of the setups within a seed."""
FAILURES = {"none": 0.0, "5 % at random": 0.05, "24 % at random": 0.24}


def draw_values(distribution, design, failures, seed):
    """Values (setup, method, seed), two methods of one distribution, NaN for failed runs."""
    rng, correlation = np.random.default_rng([20261126, seed]), DESIGNS[design]
    shape = (SETUPS, 2, SEEDS)
    z = np.sqrt(correlation) * rng.normal(size=(1, 2, SEEDS)) + np.sqrt(1.0 - correlation) * rng.normal(size=shape)
    values = np.where(rng.random(shape) < FAILURES[failures], np.nan, DISTRIBUTIONS[distribution][0](z))
    return xr.DataArray(values, dims=("setup", "method", "seed"), coords={"method": ["a", "b"]}, name="y")


def share_inside(limits, truth):
    low, high = np.asarray(limits)[..., 0], np.asarray(limits)[..., 1]
    return float(((low <= truth) & (truth <= high)).mean())


def measure_estimators(y, distribution):
    """By estimator, the share of intervals with the true value; for `compare` the share without a false leader."""
    _, mean, median = DISTRIBUTIONS[distribution]
    one, first = y.isel(method=0), y.isel(method=0, setup=0)
    below = share(one.to_dataset(), f"y <= {mean}", ["setup", "seed"])["share_ci"]
    found = {
        "summary mean": share_inside(evs.summary(first, statistics="ci")["ci"], mean),
        "summary pooled mean": share_inside(evs.summary(one, ["setup", "seed"], statistics="ci")["ci"], mean),
        "share": share_inside(below, MEAN_SHARES[distribution]),
        "compare win": 1.0 - float(evs.compare(y.isel(setup=0), "method").significant),
        "compare win, pooled": 1.0 - float(evs.compare(y, "method", ["setup", "seed"]).significant),
        "compare mean": 1.0 - float(evs.compare(y.isel(setup=0), "method", estimand="mean").significant),
    }
    measures = evs.performance(first, mean)
    found["performance bias"] = float(abs(measures.bias) <= 2.093 * measures.bias_mcse)
    if distribution != "0/1":
        found["summary median"] = share_inside(evs.summary(first, statistics="median_ci")["median_ci"], median)
        ranks = evs.over_problems(y.rename(setup="problem"), "method").mean_rank_ci
        found["over_problems mean rank"] = share_inside(ranks[0], 1.5)
        geometric = evs.compare(y.isel(setup=0), "method", estimand="geometric_mean")
        found["compare geometric mean"] = 1.0 - float(geometric.significant)
    return found


def coverage(distribution, design, failures, draws=DRAWS):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteWarning)
        every = [
            measure_estimators(draw_values(distribution, design, failures, seed), distribution) for seed in range(draws)
        ]
    return {name: float(np.mean([each[name] for each in every])) for name in every[0]}


CASES = list(itertools.product(DISTRIBUTIONS, DESIGNS, FAILURES))


def test_estimators_cover_in_a_small_sample_of_the_fixture():
    """30 draws: 0.95 is known to 0.04."""
    found = coverage("lognormal 0.8", "common streams", "24 % at random", 30)
    assert min(value for name, value in found.items() if not name.startswith("performance")) >= 0.80, found


@pytest.mark.slow
@pytest.mark.parametrize(("distribution", "design", "failures"), CASES)
def test_every_estimator_covers(distribution, design, failures):
    """Last result, 100 draws, 2026-11-26: at least 0.90.

    The least: over_problems mean rank of normal values with fresh streams and 5 % failed runs.
    """
    found = coverage(distribution, design, failures)
    # two Monte Carlo standard errors are an interval of normal values only
    found = {name: value for name, value in found.items() if not name.startswith("performance")}
    assert min(found.values()) >= 0.86, found  # 0.90 less more than a standard error of 100 draws
