"""Intervals in figures: what is drawn is what the statistics say."""

from pathlib import Path

import numpy as np
import pytest
from drawable import footnote, small

import evogt_study as evs
from evogt_study.plots import Places, dependence, distribution
from evogt_study.plots.groups import arranged

RESULT = Path(__file__).parents[2] / "data" / "results" / "oscillatory_1d.nc"


@pytest.fixture(scope="module")
def data():
    with evs.open(RESULT) as data:
        return data.load()


def lines(figure, gid):
    return [line for axes in figure.axes for line in axes.get_lines() if line.get_gid() == gid]


def expected(data):
    """Intervals of the medians, by dictionary and epsilon."""
    return evs.summary(data["error"], statistics=["median_ci"])["median_ci"].transpose("epsilon", "dictionary", "bound")


def test_a_distribution_has_the_interval_of_each_median(data):
    figure = distribution(data)
    drawn = np.array([line.get_ydata() for line in lines(figure, "interval")])
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(expected(data).values.reshape(-1, 2), axis=0))
    assert "black line: its 95 % interval" in footnote(figure)
    assert not lines(distribution(small()), "interval")  # of three seeds there is none


def test_a_dependence_has_bars_at_its_medians(data):
    figure = dependence(data)
    bars = [each for axes in figure.axes for each in axes.collections if each.get_gid() == "interval"]
    drawn = np.array([segment[:, 1] for each in bars for segment in each.get_segments()])
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(expected(data).values.reshape(-1, 2), axis=0))


def test_pooled_seeds_are_units_of_the_intervals(data):
    runs = arranged(data, "error", Places(over=("epsilon", "seed")), wanted=("by",))
    found = runs.median_intervals()[0, :, 0]
    pooled = evs.summary(data["error"], ["epsilon", "seed"], statistics=["median_ci"])["median_ci"]
    np.testing.assert_allclose(found, pooled.values)
