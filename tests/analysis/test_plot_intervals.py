"""Intervals, verdicts and precision in pictures: what is drawn is what the statistics say."""

from pathlib import Path

import numpy as np
import pytest
from drawable import footnote, small, texts

import evogt_study as evs
from evogt_study.analysis.plots import Places, dependence, distribution, kinds, precision, verdict
from evogt_study.analysis.plots.parts.arranged import arranged
from evogt_study.errors import InputError

RESULT = Path(__file__).parents[2] / "data" / "results" / "oscillatory_1d.nc"


@pytest.fixture(scope="module")
def data():
    with evs.open(RESULT) as data:
        return data.drop_vars("status_name").load()


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


def test_a_verdict_shows_ratios_to_the_best(data):
    figure = verdict(data)
    made = evs.verdict(data["error"], "dictionary")
    drawn = sorted(float(line.get_xdata()[0]) for line in lines(figure, "effect"))
    to_best = made["effect"].sel(pair=[name for name in made["pair"].values if "gtransnet" in name.split("/")])
    np.testing.assert_allclose(drawn, np.sort(np.maximum(to_best, 1.0 / to_best).values.ravel()))
    assert len(lines(figure, "best")) == 3
    assert {"epsilon = 0.2", "epsilon = 0.05", "transnet"} <= set(texts(figure))
    assert "verdict" in {choice.kind for choice in kinds.fitting(data)}
    assert "verdict" not in {choice.kind for choice in kinds.fitting(small())}
    said = kinds.drawn(data, "verdict").alt
    assert said.startswith("Ratios of means to the best by dictionary, of final relative L2 error")
    with pytest.raises(InputError, match="`--by` must be an axis of several labels, and --over have 6 points"):
        verdict(small())


@pytest.mark.parametrize(
    ("stated", "goals"),
    [
        ("", [0.1]),
        ('[precision]\nhalf_width = "20 %"', [0.2]),
        ('[precision]\nvariable = "rank"\nhalf_width = "20 %"', [0.1]),
        ("[precision]\nhalf_width = 1e-3", []),
        ("[precision]\nhalf_width = []", [0.1]),
        ("[[[", [0.1]),
    ],
)
def test_precision_is_marked_at_what_the_study_asks_for(data, stated, goals):
    figure = precision(data.assign_attrs(study=stated))
    assert [line.get_ydata()[0] for line in lines(figure, "goal")][:1] == goals
    assert [part for part in footnote(figure).split("; ") if part.startswith("dotted")] == [
        f"dotted: {goal:.0%} of the median" for goal in goals
    ]


def test_precision_is_half_the_width_of_the_interval(data):
    one = data.sel(dictionary=["gtransnet"], epsilon=[0.1])
    figure = precision(one)
    line = lines(figure, "half width")[0]
    found = evs.summary(one["error"], statistics=["mean", "ci"]).squeeze()
    half = float(found["ci"].diff("bound").squeeze() / 2.0 / found["mean"])
    assert (line.get_xdata()[-1], line.get_ydata()[-1]) == (20, pytest.approx(half))
    assert line.get_xdata()[0] >= 6
    assert "precision" not in {choice.kind for choice in kinds.fitting(data)}
    asked = data.assign_attrs(study="[precision]\nof = 'mean'\n")
    assert "precision" in {choice.kind for choice in kinds.fitting(asked)}
    with pytest.raises(InputError, match="`--over` must name axes with at least 6 runs together"):
        precision(small())
