"""Pictures of a sample: trends; axes of one's own, and settings that somebody changed."""

import json

import matplotlib
import numpy as np
import pytest
import xarray as xr
from drawable import footnote, points, small, texts
from matplotlib.figure import Figure
from scipy.stats import qmc

from evogt_study.errors import InputError
from evogt_study.plots import Places, dependence, distribution, trend
from evogt_study.plots.canvas import Look, grid
from evogt_study.plots.catalogue import Wish, drawn, fitting
from evogt_study.plots.dependence import smooth

UNIT = qmc.Sobol(3, rng=np.random.default_rng(0)).random(64)


@pytest.fixture(scope="module")
def data():
    """error = gamma^2 (1 + [dictionary = b]) with noise of the seed, and runs of large gamma failed."""
    gamma, word = 2.0 * 15.0 ** UNIT[:, 0], np.where(UNIT[:, 2] < 0.5, "a", "b")
    error = gamma[:, None] ** 2 * np.where(word == "b", 2.0, 1.0)[:, None]
    error = error * np.random.default_rng(0).lognormal(0.0, 0.1, (64, 2))
    error[gamma > 24.0] = np.nan
    design = json.dumps({"kind": "sample", "rule": "sobol", "parameters": {"gamma": {}, "k": {}, "dictionary": {}}})
    along = {"gamma": ("point", gamma), "k": ("point", 1.0 + UNIT[:, 1]), "dictionary": ("point", word)}
    return xr.Dataset(
        {
            "error": (("point", "seed"), error, {"long_name": "relative error"}),
            "run_status": (("point", "seed"), np.where(np.isfinite(error), 1, 2).astype(np.int8)),
            "run_key": (("point", "seed"), np.arange(128).astype(str).astype(object).reshape(64, 2)),
        },
        {"point": ("point", np.arange(64), {"design": design}), "seed": [0, 1], **along},
    )


def test_a_sample_has_its_own_pictures_and_none_over_the_number_of_a_point(data):
    assert [choice.kind for choice in fitting(data)] == ["distribution", "trend"]


def test_a_trend_is_a_smooth_line_through_every_run(data):
    data = data.copy()
    data["error"].attrs["estimand"] = "geometric_mean"  # an error has a logarithmic scale
    figure = trend(data, places=Places(along="gamma"))
    (axes,) = figure.axes
    assert len(points(axes)) == 118
    x, y = points(axes, "trend").T
    slope = np.diff(np.log(y)) / np.diff(np.log(x))
    assert 1.5 < slope.min() < slope.max() < 2.5
    assert axes.get_xlabel() == r"$\gamma$"
    assert len(trend(data).axes) == 3
    assert footnote(figure) == "118 of 128 runs (10 failed); line: local linear fit"


def test_a_line_is_its_own_trend_and_few_points_have_none():
    x = np.linspace(1.0, 2.0, 30)
    np.testing.assert_allclose(smooth(x, 3.0 * x - 1.0)[1], 3.0 * smooth(x, x)[0] - 1.0)
    np.testing.assert_allclose(smooth(x, x**2, True, True)[1], smooth(x, x, True, True)[0] ** 2)
    assert len(smooth(x[:3], x[:3])[0]) == 0


@pytest.mark.parametrize(("draw", "count"), [(distribution, 1), (trend, 3)])
def test_pictures_are_drawn_on_axes_that_are_given_and_leave_the_rest_of_the_figure(data, draw, count):
    figure = Figure(figsize=(9.0, 3.0))
    axes = figure.subplots(1, count + 1)
    assert draw(data, ax=axes[0] if count == 1 else axes[:count]) is figure
    assert tuple(figure.get_size_inches()) == (9.0, 3.0)
    assert all(each.has_data() for each in axes[:count])
    assert not axes[count].has_data()
    assert any(" of " in each.get_title(loc="right") for each in axes)  # how many runs
    with pytest.raises(InputError, match=f"`ax` must be as many axes as there are panels, {count}, got {count + 1}"):
        draw(data, ax=axes)


def test_settings_that_somebody_changed_are_respected(data):
    with matplotlib.rc_context({"font.size": 20.0, "figure.figsize": (5.0, 4.0)}):
        figure = trend(data, places=Places(along="k"))
    assert figure.axes[0].xaxis.label.get_size() == 16.0
    assert figure.get_figwidth() == 5.0


def test_a_narrow_figure_has_fewer_panels_in_a_row_and_the_size_that_was_asked_for(data):
    four = data.assign_coords(tau=("point", 10.0 ** (-12 + 6 * UNIT[:, 1])))
    design = {"kind": "sample", "parameters": {"gamma": {}, "k": {}, "tau": {}, "dictionary": {}}}
    four["point"].attrs = {"design": json.dumps(design)}
    figure = drawn(four, "trend", Wish(look=Look(size=(3.4, 5.0)))).figure
    assert tuple(figure.get_size_inches()) == (3.4, 5.0)
    assert len({round(axes.get_position().x1, 2) for axes in figure.axes}) == 2
    assert len(figure.axes) == 4
    assert [grid(count, Figure(figsize=(6.5, 1.0))) for count in (1, 3, 4, 6)] == [(1, 1), (1, 3), (2, 2), (2, 3)]
    assert [grid(6, Figure(figsize=(width, 1.0))) for width in (1.0, 3.0, 3.4)] == [(6, 1), (6, 1), (3, 2)]


def test_a_parameter_of_a_sample_and_what_its_runs_measure_stand_along_a_dependence(data):
    choice = drawn(data, "dependence", Wish(places=Places(along="gamma")))
    assert len(points(choice.figure.axes[0], "trend")) > 10
    assert choice.alt == drawn(data, "trend").alt
    assert len(points(dependence(data, places=Places(along="dictionary")).axes[0])) == 118  # words
    measured = data.assign(unknowns=data.run_status * (1 + data.point))
    choice = drawn(measured, "dependence", Wish(places=Places(along="unknowns")))
    assert choice.alt.startswith("A cloud of 118 points: unknowns from 1 to ")
    assert len(points(choice.figure.axes[0])) == 118


def test_title_and_labels_are_typed_with_mathematics(data):
    look = Look("Errors at $\\gamma$", xlabel="shape $\\gamma_1$", ylabel="$e$ for 5 $")
    figure = drawn(data, "trend", Wish(places=Places(along="gamma"), look=look)).figure
    assert {"Errors at $\\gamma$", "shape $\\gamma_1$", "$e$ for 5 $"} <= set(texts(figure))
    figure = drawn(small(), "distribution", Wish(look=Look("Errors"))).figure
    title = next(text for text in figure.texts if text.get_text() == "Errors").get_window_extent()
    legend, panel = figure.legends[0].get_window_extent(), figure.axes[0].get_window_extent()
    assert title.y0 > legend.y1 > legend.y0 > panel.y1  # one above the other
    with pytest.raises(InputError, match="`--xlabel` must have mathematics .* reads, got .*unknown"):
        drawn(data, "trend", Wish(look=Look(xlabel=r"$\unknown$")))
    with pytest.raises(InputError, match="`ax` must be left out where a title"):
        drawn(data, "trend", Wish(look=Look("one"), ax=Figure().subplots(1, 3)))


def test_a_result_without_a_sample_has_no_trend(data):
    plain = data.isel(point=0).drop_vars(["point", "gamma", "k", "dictionary"])
    with pytest.raises(InputError, match="`--over` must name the dimension of a sample"):
        trend(plain)
