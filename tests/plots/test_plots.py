"""Plots of small results: every run is drawn or counted, positions and intervals are right, labels are the user's."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from drawable import (
    AXES,
    PILOT,
    check_layout,
    compute_pilot_runs,
    compute_runs,
    draw,
    footnote_of,
    lines_of,
    points_of,
    small_result,
    texts_of,
    write_study,
)
from scipy.stats import qmc

import evogt_study as evs
from evogt_study.errors import InputError
from evogt_study.plots.axis_plots import MAX_POINTS_OF_GROUP, fit_trend
from evogt_study.plots.groups import MAX_PANELS, PlotRequest, group_runs
from evogt_study.study.study import Study

RESULT = Path(__file__).parents[2] / "data" / "results" / "oscillatory_1d.nc"


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """36 runs: 12 of kind "bad" fail, 2 diverge."""
    return compute_runs(write_study(tmp_path_factory.mktemp("failing"), AXES))


@pytest.fixture(scope="module")
def piloted():
    return compute_pilot_runs(Study.from_text(PILOT))


@pytest.fixture(scope="module")
def published():
    return evs.open(RESULT).load()


@pytest.fixture(scope="module")
def sample():
    """error = gamma^2 (1 + [dictionary = b]) with noise of the seed; runs of large gamma failed."""
    unit = qmc.Sobol(3, rng=np.random.default_rng(0)).random(64)
    gamma, word = 2.0 * 15.0 ** unit[:, 0], np.where(unit[:, 2] < 0.5, "a", "b")
    error = gamma[:, None] ** 2 * np.where(word == "b", 2.0, 1.0)[:, None]
    error = error * np.random.default_rng(0).lognormal(0.0, 0.1, (64, 2))
    error[gamma > 24.0] = np.nan
    parameters = {"gamma": {}, "k": {}, "dictionary": {}}
    design = json.dumps({"kind": "sample", "rule": "sobol", "parameters": parameters})
    along = {"gamma": ("point", gamma), "k": ("point", 1.0 + unit[:, 1]), "dictionary": ("point", word)}
    data = with_runs(xr.Dataset({"error": (("point", "seed"), error, {"long_name": "relative error"})}))
    return data.assign_coords(point=("point", np.arange(64), {"design": design}), seed=[0, 1], **along)


def with_runs(data, variable="error"):
    """The data with the status and the key of each run, as a result has them."""
    dims = [dim for dim in data[variable].dims if dim != "time"]
    shape = [data.sizes[dim] for dim in dims]
    known = np.isfinite(data[variable]).any("time") if "time" in data[variable].dims else np.isfinite(data[variable])
    status = np.where(known.transpose(*dims), 1, 2).astype(np.int8)
    keys = np.arange(status.size).astype(str).astype(object).reshape(shape)
    return data.assign(run_status=(dims, status), run_key=(dims, keys))


def many(count, groups=("a", "b"), **coords):
    """A result of `count` seeds for each group."""
    values = np.random.default_rng(0).lognormal(size=(len(groups), count))
    data = xr.Dataset({"error": (("word", "seed"), values)}, {"word": list(groups), "seed": np.arange(count)})
    return with_runs(data.assign_coords(coords))


def traces(counts, steps=3):
    """A time series for each string; the later ones lack runs."""
    values = np.random.default_rng(2).lognormal(size=(len(counts), max(counts), steps))
    for number, count in enumerate(counts):
        values[number, count:] = np.nan
    coords = {"word": list("abc")[: len(counts)], "seed": np.arange(max(counts)), "time": np.arange(float(steps))}
    return with_runs(xr.Dataset({"trace": (("word", "seed", "time"), values)}, coords), "trace")


# --- axes, labels and counts of each plot -----------------------------------------------------------------------------

MADE = {
    "small": small_result, "flat": lambda: small_result(2), "box": lambda: small_result(3),
    "pilot": lambda: evs.open(RESULT, True).load(),
}  # fmt: skip
PLOTS = [  # result, kind, options, labels of x and y of the first panel, panels, number of points, footnote
    ("small", "distribution", {}, ("k", "relative $L^2$ error"), 1, 12, "12 of 12 runs; points: runs over seed; bar"),
    ("small", "distribution", {"col": "k"}, ("dictionary", "relative $L^2$ error"), 2, 12, "12 of 12 runs"),
    ("small", "distribution", {"at": {"k": "2"}}, ("dictionary", "relative"), 1, 6, "6 of 6 runs; points: .*at k = 2"),
    ("failing", "distribution", {}, ("N", "error"), 1, 22, r"22 of 36 runs \(12 failed, 2 diverged\); 3/4 at"),
    ("published", "distribution", {}, ("epsilon", "relative $L^2$ error"), 1, 240, "black line: its 95 % interval"),
    ("failing", "dependence", {}, ("N", "error"), 1, 22, r"22 of 36 .*, 0/4 at N = 10, bad, .*; line: median"),
    ("pilot", "dependence", {}, ("gamma", "relative"), 3, 600, "600 of 600 runs; ring: the pilot's choice"),
    ("sample", "dependence", {"x": "gamma"}, ("gamma", "relative error"), 1, 118, "line: local linear fit"),
    ("sample", "trend", {}, ("gamma", "relative error"), 3, 354, r"118 of 128 runs \(10 failed\); line: local"),
    ("failing", "heat_map", {}, ("N", "kind"), 1, 0, r"22 of 36 runs \(.*; hatched: no run has a value"),
    ("piloted", "heat_map", {}, ("index of the candidate", "dictionary"), 1, 0, "10 of 10 runs$"),
    ("small", "time_series", {}, ("time $t$", "relative $L^2$ error"), 2, 0, "line: median; band: all runs over seed"),
    ("failing", "time_series", {"variable": "trace"}, ("index of checkpoint", "trace"), 3, 0, "0/4 at bad, N = 10"),
    ("small", "spectrum", {}, ("index $i$", r"singular value $\sigma_i / \sigma_1$"), 2, 0, "12 of 12 runs"),
    ("small", "scatter", {}, ("rank $r$", "relative $L^2$ error"), 1, 12, "^12 of 12 runs$"),
    ("small", "scatter", {"x": "run_seconds", "col": "k"}, ("wall time (s)", "relative"), 2, 12, "^12 of 12 runs$"),
    ("small", "fields", {}, ("", "solution"), 2, 0, "dictionary = transnet, k = 1, seed = 0, time = 0.1"),
    ("small", "fields", {"at": {"k": "2", "time": "0.04"}}, ("", "solution"), 2, 0, "k = 2, seed = 0, time = 0.05"),
    ("flat", "fields", {}, ("coordinate $x$", "coordinate $y$"), 3, 0, "time = 0.1"),
    ("box", "fields", {}, ("coordinate $x$", "coordinate $y$"), 3, 0, "z = 0.5"),
    ("published", "comparison", {}, ("relative $L^2$ error: ratio", ""), 1, 0, "95 % confidence intervals; open"),
]  # fmt: skip


@pytest.mark.parametrize(("result", "kind", "options", "labels", "panels", "count", "note"), PLOTS)
def test_axes_labels_and_counts(result, kind, options, labels, panels, count, note, request):
    data = MADE[result]() if result in MADE else request.getfixturevalue(result)
    before = data.copy(deep=True)
    made = draw(data, kind, **options)
    axes = [each for each in made.figure.axes if each.get_label() != "<colorbar>"]
    assert (axes[0].get_xlabel().startswith(labels[0]), axes[0].get_ylabel().startswith(labels[1])) == (True, True)
    assert len(axes) == panels
    assert sum(len(points_of(each)) for each in axes) == count
    assert re.search(note, footnote_of(made.figure))
    assert made.alt.endswith(".")
    assert made.caption.endswith(".")
    assert made.figure.get_figwidth() in (3.4, 6.5)  # a column, or a page
    check_layout(made.figure)
    if not options:
        bare = draw(data, kind, notes=False)
        assert footnote_of(bare.figure) == ""
        assert not [text for text in texts_of(bare.figure) if "/4" in text and kind != "heat_map"]
        assert footnote_of(made.figure).split("; ")[-1].lower() in bare.caption.lower()
    xr.testing.assert_identical(data, before)  # drawing changes nothing


# --- what each plot draws ---------------------------------------------------------------------------------------------


def test_a_distribution_has_each_run_beside_its_median_and_lists_missing_runs(failing):
    (axes,) = draw(failing, "distribution").figure.axes
    drawn = points_of(axes)
    for place, (kind, n) in enumerate(itertools.product(("fast", "slow"), (10, 20, 40))):
        expected = failing["error"].sel(kind=kind, N=n).dropna("seed")
        centre = place % 3 + (place // 3 - 1) * 0.8 / 3
        near = drawn[np.abs(drawn[:, 0] - centre) < 0.13]
        np.testing.assert_array_equal(np.sort(near[:, 1]), np.sort(expected))
    assert "0/4 at N = 40, bad" in footnote_of(axes.figure)
    assert "3/4 at N = 40, fast" in footnote_of(axes.figure)


def test_of_many_runs_a_distribution_has_boxes_of_letter_values_and_the_runs_beyond():
    data = many(8334)
    data["error"][0, :5] = np.nan
    figure = draw(with_runs(data), "distribution").figure
    (axes,) = figure.axes
    values = data["error"].values[1]
    boxes = [box.get_paths()[0].get_extents() for box in axes.collections if box.get_gid() == "band"]
    boxes = [box for box in boxes if box.x0 > 0.5]
    assert len(boxes) == 10
    for depth, box in enumerate(boxes, 2):
        np.testing.assert_allclose([box.y0, box.y1], np.quantile(values, [0.5**depth, 1 - 0.5**depth]))
    drawn = points_of(axes)
    beyond = values[(values < boxes[-1].y0) | (values > boxes[-1].y1)]
    np.testing.assert_array_equal(np.sort(drawn[drawn[:, 0] > 0.5][:, 1]), np.sort(beyond))
    assert "16,663 of 16,668 runs (5 failed)" in footnote_of(figure)
    assert "8329/8334 at a" in footnote_of(figure)


def test_drawn_intervals_equal_the_intervals_of_the_statistics(published):
    expected = evs.summary(published["error"], statistics=["median_ci"])["median_ci"].values.reshape(-1, 2)
    drawn = [line.get_ydata() for line in lines_of(draw(published, "distribution").figure, "interval")]
    bars = [each for each in draw(published, "dependence").figure.axes[0].collections if each.get_gid() == "interval"]
    ends = [segment[:, 1] for each in bars for segment in each.get_segments()]
    for found in (drawn, ends):
        np.testing.assert_allclose(np.sort(found, axis=0), np.sort(expected, axis=0))
    assert not lines_of(draw(small_result(), "distribution").figure, "interval")  # of three seeds there is none
    pooled = group_runs(
        published, "error", PlotRequest(over=("epsilon", "seed")), wanted=("hue",)
    ).compute_median_intervals()
    seeds = evs.summary(published["error"], ["epsilon", "seed"], statistics=["median_ci"])["median_ci"]
    np.testing.assert_allclose(pooled[0, :, 0], seeds.values)


def test_a_dependence_joins_medians_in_the_order_of_their_numbers(failing, piloted):
    line = lines_of(draw(failing.isel(N=[1, 0, 2]), "dependence").figure, "median")[0]
    np.testing.assert_allclose(line.get_xdata(), [10, 20, 40])
    np.testing.assert_allclose(line.get_ydata(), failing["error"].sel(kind="fast").median("seed"))
    both = failing.assign_coords(h=(("kind", "N"), np.outer([1.0, 2.0, 3.0], 1.0 / failing["N"].values)))
    x = [line.get_xdata() for line in lines_of(draw(both, "dependence", x="h").figure, "median")]
    np.testing.assert_allclose(np.unique(np.concatenate(x)), [1 / 40, 1 / 20, 1 / 10, 2 / 10])
    for roles in ({}, {"x": "gamma"}):  # the candidates, not their numbers
        found = [line.get_xdata().tolist() for line in lines_of(draw(piloted, "dependence", **roles).figure, "median")]
        assert found == [[1.0, 2.0, 4.0], [2.0, 5.0]]
    assert "gamma = " in draw(piloted, "dependence").alt


@pytest.mark.parametrize("slope", [(), (1.0, -2.0)])
def test_reference_lines_have_the_requested_slopes_and_there_are_none_without(failing, slope):
    figure = draw(failing, "dependence", slope=slope).figure
    for line, power in zip(lines_of(figure, "reference"), slope, strict=True):
        x, y = line.get_data()
        np.testing.assert_allclose(np.diff(np.log(y)) / np.diff(np.log(x)), power)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [label for label in labels if "slope" in label] == ["slope 1", "slope −2"][: len(slope)]
    assert not lines_of(draw(many(3, word=[1.0, 2.0]), "dependence", slope=slope).figure, "reference")  # linear scales


def test_bands_of_one_figure_have_the_same_quantiles():
    for counts, quantile in (([8, 5], 1.0), ([25, 16], 0.95)):
        data = traces(counts)
        bands = draw(data, "time_series").figure.axes[0].collections
        top = [band.get_paths()[0].get_extents().y1 for band in bands]
        np.testing.assert_allclose(top, np.nanquantile(data["trace"], quantile, axis=1).max(axis=1))
    band = draw(many(8334, word=[1.0, 2.0]), "dependence").figure.axes[0].collections[0]
    expected = np.quantile(many(8334)["error"], 0.95, axis=1).max()
    np.testing.assert_allclose(band.get_paths()[0].get_extents().y1, expected)
    data = many(MAX_POINTS_OF_GROUP + 20)
    data["error"][1, 180:] = np.nan
    boxes = draw(with_runs(data), "distribution").figure.axes[0].collections
    assert len([box for box in boxes if box.get_gid() == "band"]) == 4 + 4  # of 220 and of 180 runs


def test_cells_have_their_median_and_missing_runs(failing):
    axes = draw(failing, "heat_map").figure.axes[0]
    image = np.ma.filled(axes.get_images()[0].get_array(), np.nan)
    np.testing.assert_allclose(image[:2], failing["error"].isel(kind=slice(2)).median("seed"))
    assert np.isnan(image[2]).all()
    assert len([patch for patch in axes.patches if patch.get_gid() == "empty"]) == 3
    assert sum("3/4" in text for text in texts_of(axes.figure)) == 2
    assert axes.yaxis_inverted()  # strings from the top


def test_a_spectrum_falls_from_one_and_is_cut_at_the_root_of_each_tau():
    data = small_result()
    figure = draw(data, "spectrum").figure
    sigma = data["singular_values"].isel(dictionary=0, k=0)
    np.testing.assert_allclose(
        lines_of(figure, "median")[0].get_ydata(), (sigma / sigma.isel(feature=0)).median("seed")
    )
    both = xr.concat([data.assign_coords(tau=1e-12), data.assign_coords(tau=1e-6)], "tau", data_vars="all")
    both["singular_values"][0, 0, 0, 1] = np.nan  # the first tau with a value has the curve
    cut = draw(both, "spectrum").figure
    np.testing.assert_array_equal(lines_of(cut, "median")[0].get_ydata(), lines_of(figure, "median")[0].get_ydata())
    for options, roots in (({}, [1e-6, 1e-3]), ({"at": {"tau": 1e-6}}, [1e-3])):
        drawn = lines_of(draw(both, "spectrum", **options).figure, "cut")
        assert sorted({line.get_ydata()[0] for line in drawn}) == pytest.approx(roots)


def test_a_scatter_has_each_run():
    data = small_result()
    drawn = points_of(draw(data, "scatter").figure.axes[0])
    expected = np.stack([data["rank"].values.ravel(), data["error"].values.ravel()], axis=1)
    np.testing.assert_allclose(drawn[np.lexsort(drawn.T)], expected[np.lexsort(expected.T)])


def test_a_trend_is_a_smooth_line_through_the_runs_of_a_sample(sample):
    sample = sample.copy()
    sample["error"].attrs["estimand"] = "geometric_mean"  # an error has a logarithmic scale
    x, y = points_of(draw(sample, "trend", x="gamma").figure.axes[0], "trend").T
    slope = np.diff(np.log(y)) / np.diff(np.log(x))
    assert 1.5 < slope.min() < slope.max() < 2.5
    measured = sample.assign(unknowns=sample.run_status * (1 + sample.point))
    assert draw(measured, "dependence", x="unknowns").alt.startswith("A cloud of 118 points: unknowns from 1 to ")
    line = np.linspace(1.0, 2.0, 30)
    np.testing.assert_allclose(fit_trend(line, 3.0 * line - 1.0)[1], 3.0 * fit_trend(line, line)[0] - 1.0)
    np.testing.assert_allclose(fit_trend(line, line**2, True, True)[1], fit_trend(line, line, True, True)[0] ** 2)
    assert len(fit_trend(line[:3], line[:3])[0]) == 0


def test_fields_are_of_one_run_beside_the_exact_field_and_the_error():
    data = small_result()
    axes = draw(data, "fields", at={"dictionary": "gtransnet", "k": "2", "seed": "1", "time": "0.04"}).figure.axes
    run = data.isel(dictionary=1, k=1, seed=1, time=1)
    exact, numerical = axes[0].get_lines()
    np.testing.assert_allclose(exact.get_ydata(), run["exact_field"])
    np.testing.assert_allclose(numerical.get_ydata(), run["field"])
    error = axes[1].get_lines()[0].get_ydata()
    np.testing.assert_allclose(error[1:-1], np.abs(run["field"] - run["exact_field"])[1:-1])
    for dimension in (1, 2):
        assert len(draw(small_result(dimension).drop_vars("exact_field"), "fields").figure.axes) == 1


@pytest.mark.parametrize("order", [("x", "y"), ("y", "x")])
def test_panels_of_a_field_have_x_across_and_scales_around_zero(order):
    """A spot at large x and small y is drawn at the lower right, in whatever order the dimensions come."""
    values = np.zeros((5, 4))
    values[4, 0] = 2.0
    coords = {"x": np.linspace(0.0, 1.0, 5) ** 2, "y": np.linspace(0.0, 1.0, 4)}
    field = xr.DataArray(values, coords, ("x", "y")).transpose(*order)
    data = xr.Dataset({"field": field, "exact_field": 1.5 * field}).expand_dims(seed=[0])
    axes = draw(with_runs(data.assign(error=("seed", [1.0]))), "fields").figure.axes
    exact, numerical, error = (each.collections[0] for each in axes)
    for mesh, spot in ((exact, 3.0), (numerical, 2.0), (error, 1.0)):
        drawn = np.asarray(mesh.get_array()).reshape(4, 5)
        assert (drawn[0, 4], drawn.sum()) == (spot, spot)
    assert exact.get_clim() == numerical.get_clim() == (-3.0, 3.0)
    assert error.get_clim() == (0.0, 1.0)
    assert axes[0].get_xlim() == axes[0].get_ylim() == (0.0, 1.0)


# --- roles, labels and scales -----------------------------------------------------------------------------------------


def test_labels_are_long_names_with_units_else_names():
    data = many(3, word=[1.0, 2.0])
    axes = draw(data, "dependence").figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("word", "error")
    data["error"].attrs = {"long_name": "$\\broken{ error", "units": "m"}
    data["word"].attrs = {"long_name": "wave number", "units": "1/m"}
    axes = draw(data, "dependence").figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("wave number (1/m)", "\\$\\broken{ error (m)")
    data["word"].attrs = {"long_name": "ε"}  # a letter says less than the name
    data["error"].attrs |= {"label": "$e$"}
    made = draw(data, "dependence")
    assert (made.figure.axes[0].get_xlabel(), made.figure.axes[0].get_ylabel()) == ("word", "$e$ (m)")
    assert "Labels: e (m) = $\\broken{ error (m)." in made.caption


def test_roles_assign_axes_and_the_rest_is_fixed_or_thinned():
    legend = draw(small_result(), "distribution", "rank", x="dictionary", hue="k").figure.legends[0]
    assert (legend.get_title().get_text(), [text.get_text() for text in legend.get_texts()]) == ("k", ["1", "2"])
    sizes = {"n": 2, "p": 9, "s": 40, "d": 2, "seed": 2}
    data = xr.Dataset({"error": (tuple(sizes), np.ones(tuple(sizes.values())))})
    data = with_runs(data.assign_coords({name: np.arange(1, size + 1) for name, size in sizes.items()}))
    figure = draw(data, "dependence", x="n", hue="s", col="p").figure
    assert len(figure.axes) == MAX_PANELS
    for note in ("at d = 1, the first of 2", "6 of 9 values of p", "12 of 40 values of s"):
        assert note in footnote_of(figure)


@pytest.mark.parametrize(
    ("values", "attributes", "scale"),
    [
        ([0.1, 0.9], {}, "linear"),
        ([1e-4, 0.9], {}, "log"),
        ([0.1, 0.9], {"estimand": "geometric_mean"}, "log"),
        ([0.0, 0.9], {"estimand": "geometric_mean"}, "symlog"),
        ([-1.0, 0.9], {"estimand": "geometric_mean"}, "linear"),
    ],
)
def test_scales_are_linear_except_of_errors_and_over_three_decades(values, attributes, scale):
    data = many(10)
    data["error"].values[:] = np.linspace(*values, 20).reshape(2, 10)
    data["error"].attrs = attributes
    assert draw(data, "distribution").figure.axes[0].get_yscale() == scale
    assert draw(data, "distribution", yscale="linear").figure.axes[0].get_yscale() == "linear"


def test_a_parameter_that_differs_within_a_sample_is_not_along_x(piloted):
    with pytest.raises(InputError, match="must be constant within a sample, but gamma follows dictionary"):
        draw(piloted, "dependence", x="gamma", over=("dictionary", "seed"))
