"""Pictures of real small results: every run is in them or counted, and labels are the file's own."""

import itertools
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from drawable import AXES, PILOT, check_layout, footnote, own, pilot_runs, points, runs, small, texts
from matplotlib.backends.backend_agg import FigureCanvasAgg

from evogt_study.cli.pictures import plot
from evogt_study.errors import InputError
from evogt_study.plots import Places, encoded, png, svg
from evogt_study.plots import catalogue as kinds
from evogt_study.plots.comparison import comparable
from evogt_study.plots.dependence import MOST, dependence, rank_error, scatter
from evogt_study.plots.distribution import EACH, distribution
from evogt_study.plots.fields import field_curves, fields
from evogt_study.plots.groups import MAX_PANELS, arranged
from evogt_study.plots.heat_map import heat_map
from evogt_study.plots.histories import histories, spectrum
from evogt_study.study.study import Study


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """36 runs: 12 of kind "bad" fail, 2 diverge."""
    return runs(own(tmp_path_factory.mktemp("failing"), AXES))


@pytest.fixture(scope="module")
def one_seed(tmp_path_factory):
    return runs(own(tmp_path_factory.mktemp("one"), '[axes]\nkind = ["fast", "slow"]\nN = [10, 20, 40]\nseed = [0]\n'))


@pytest.fixture(scope="module")
def all_failed(tmp_path_factory):
    return runs(own(tmp_path_factory.mktemp("none"), '[axes]\nkind = ["bad"]\nN = [10, 20]\nseed = [0, 1]\n'))


@pytest.fixture(scope="module")
def without_seed(tmp_path_factory):
    source = "def method(shift, k):\n    return {'gain': k * 2.0**-shift}\n"
    return runs(own(tmp_path_factory.mktemp("noseed"), "[axes]\nshift = [0, 1, 2]\nk = [1, 2]\n", source))


@pytest.fixture(scope="module")
def chosen():
    return pilot_runs(Study.from_text(PILOT))


def many(count, groups=("a", "b")):
    """A result of `count` seeds for each group, without bookkeeping."""
    values = np.random.default_rng(0).lognormal(size=(len(groups), count))
    array = xr.DataArray(
        values, dims=("word", "seed"), coords={"word": list(groups), "seed": np.arange(count)}, name="error"
    )
    return array.to_dataset()


# --- every run is drawn or counted ------------------------------------------------------------------------------------


def test_a_distribution_has_a_point_for_each_run_at_its_value():
    data = small()
    figure = distribution(data)
    drawn = points(figure.axes[0])
    np.testing.assert_array_equal(np.sort(drawn[:, 1]), np.sort(data["error"].values.ravel()))
    for number, (k, dictionary) in enumerate(itertools.product(range(2), range(2))):
        centre = k + (dictionary - 0.5) * 0.4
        own_values = data["error"].transpose("k", "dictionary", "seed").values.reshape(4, 3)[number]
        near = drawn[np.abs(drawn[:, 0] - centre) < 0.2]
        np.testing.assert_array_equal(np.sort(near[:, 1]), np.sort(own_values))
    medians = points(figure.axes[0], "median")
    assert set(medians[:, 1]) == set(np.median(data["error"].values, axis=-1).ravel())
    assert footnote(figure).startswith("12 of 12 runs")


def test_runs_without_a_value_are_counted_by_what_became_of_them(failing):
    figure = distribution(failing)
    assert len(points(figure.axes[0])) == 22
    assert footnote(figure).startswith("22 of 36 runs (12 failed, 2 diverged)")
    assert texts(figure).count("0/4") == 3
    assert texts(figure).count("3/4") == 2


def test_the_counts_stand_over_their_groups(failing):
    axes = distribution(failing).axes[0]
    places = {text.get_text(): text.get_position()[0] for text in axes.texts if text.get_text() == "3/4"}
    assert 1.5 < places["3/4"] < 2.5  # N = 40 is the third


def test_of_very_many_runs_boxes_of_letter_values_and_the_runs_beyond_are_drawn():
    data = many(8334)
    data["error"][0, :5] = np.nan
    figure = distribution(data)
    (axes,) = figure.axes
    sample = data["error"].values[1]
    boxes = [box.get_paths()[0].get_extents() for box in axes.collections if box.get_gid() == "band"]
    own_boxes = [box for box in boxes if box.x0 > 0.5]
    assert len(own_boxes) == 10
    for place, box in enumerate(own_boxes):
        np.testing.assert_allclose([box.y0, box.y1], np.quantile(sample, [0.5 ** (place + 2), 1 - 0.5 ** (place + 2)]))
    widths = [box.width for box in own_boxes]
    assert widths == sorted(widths, reverse=True)
    drawn = points(axes)
    own_points = drawn[drawn[:, 0] > 0.5][:, 1]
    last = own_boxes[-1]
    np.testing.assert_array_equal(np.sort(own_points), np.sort(sample[(sample < last.y0) | (sample > last.y1)]))
    assert "16,663 of 16,668 runs (5 without a value)" in footnote(figure)
    assert "points: runs beyond" in footnote(figure)
    assert "−5" in texts(figure)
    assert "−k: k runs are missing" in footnote(figure)


def test_a_dependence_has_all_runs_and_a_line_through_the_medians(failing):
    figure = dependence(failing)
    (axes,) = figure.axes
    assert len(points(axes)) == 22
    lines = [line for line in axes.get_lines() if line.get_gid() == "median"]
    fast = failing["error"].sel(kind="fast").median("seed")
    np.testing.assert_allclose(lines[0].get_xdata(), [10, 20, 40])
    np.testing.assert_allclose(lines[0].get_ydata(), fast)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert texts(figure).count("0/4") == 3
    assert texts(figure).count("3/4") == 2


def test_a_recorded_variable_stands_along_by_its_medians(failing):
    places = Places(along="count", by="kind")  # which is 2 N
    choice = kinds.drawn(failing, "dependence", kinds.Wish(places=places, slopes=(-2.0,)))
    (axes,) = choice.figure.axes
    assert np.unique(points(axes, "median")[:, 0]).tolist() == [20.0, 40.0, 80.0]
    assert axes.get_xlabel() == "count"
    assert len(points(axes, "reference")) == 50
    assert "(count = 80, fast)" in choice.alt
    both = failing.assign_coords(h=(("kind", "N"), np.outer([1.0, 2.0, 3.0], 1.0 / failing["N"].values)))
    x = points(dependence(both, places=Places(along="h")).axes[0], "median")[:, 0]
    np.testing.assert_allclose(np.unique(x), [1 / 40, 1 / 20, 1 / 10, 2 / 10])
    with pytest.raises(InputError, match=r"`--along` must be one of N, seed, got .trace"):
        kinds.drawn(failing, "dependence", kinds.Wish(places=Places(along="trace")))


def test_places_are_joined_in_the_order_of_their_numbers():
    data = small().isel(k=[1, 0])
    line = next(line for line in dependence(data).axes[0].get_lines() if line.get_gid() == "median")
    assert line.get_xdata().tolist() == [1.0, 2.0]


def test_of_very_many_runs_a_dependence_has_a_band():
    data = many(8334).assign_coords(word=[1.0, 2.0])
    axes = dependence(data, slopes=(1.0,)).axes[0]
    assert len(points(axes)) == 0
    band = axes.collections[0].get_paths()[0].get_extents()
    np.testing.assert_allclose(band.y1, np.quantile(data["error"].values, 0.95, axis=1).max())


@pytest.mark.parametrize(("slopes", "expected"), [((1.0, -2.0), [1.0, -2.0]), (None, [-2.0, -4.0]), ((), [])])
def test_reference_lines_have_their_slopes(failing, slopes, expected):
    figure = dependence(failing, slopes=slopes)
    lines = [line for line in figure.axes[0].get_lines() if line.get_gid() == "reference"]
    for line, slope in zip(lines, expected, strict=True):
        x, y = line.get_data()
        np.testing.assert_allclose(np.diff(np.log(y)) / np.diff(np.log(x)), slope)
    words = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert [word for word in words if "slope" in word] == [f"slope {slope:g}".replace("-", "−") for slope in expected]


def test_no_reference_lines_where_a_scale_is_linear():
    data = many(3).assign_coords(word=[1.0, 2.0])  # not spread enough
    assert not [line for line in dependence(data, slopes=(1.0,)).axes[0].get_lines() if line.get_gid() == "reference"]


def test_cells_have_the_medians_and_what_they_lack(failing):
    figure = heat_map(failing)
    image = figure.axes[0].get_images()[0].get_array()
    with np.errstate(invalid="ignore"):
        expected = failing["error"].isel(kind=slice(2)).median("seed")
    np.testing.assert_allclose(np.asarray(image)[:2], expected)
    assert np.isnan(np.ma.filled(image, np.nan)[2]).all()
    hatched = [patch for patch in figure.axes[0].patches if patch.get_gid() == "barren"]
    assert len(hatched) == 3
    assert sum("3/4" in text for text in texts(figure)) == 2
    assert "hatched: no run has a value" in footnote(figure)
    assert figure.axes[0].yaxis_inverted()  # words from the top


def test_cells_without_a_planned_run_are_empty_and_count_for_nothing(chosen):
    figure = heat_map(chosen)
    assert footnote(figure).startswith("10 of 10 runs")
    assert not [patch for patch in figure.axes[0].patches if patch.get_gid() == "barren"]


def test_histories_are_the_median_in_a_band_of_all():
    data = small()
    figure = histories(data)
    for panel, axes in enumerate(figure.axes):
        own_values = data["error_history"].isel(k=panel)
        lines = [line for line in axes.get_lines() if line.get_gid() == "median"]
        np.testing.assert_allclose(lines[0].get_ydata(), own_values.isel(dictionary=0).median("seed"))
        np.testing.assert_allclose(lines[0].get_xdata(), data["time"])
        band = axes.collections[1].get_paths()[0].get_extents()
        np.testing.assert_allclose(band.y1, float(own_values.isel(dictionary=1).max()))
    assert "band: all runs over seed" in footnote(figure)


@pytest.mark.long
def test_histories_tell_which_lines_lack_runs(failing):
    assert "3/4 at fast, N = 40" in footnote(histories(failing, "trace"))
    assert "0/4 at bad, N = 10" in footnote(histories(failing, "trace"))


def test_a_band_of_many_runs_is_of_quantiles():
    values = np.random.default_rng(1).lognormal(size=(50, 4))
    data = xr.Dataset({"trace": (("seed", "time"), values)}, {"time": [0.0, 1.0, 2.0, 3.0], "seed": np.arange(50)})
    data["run_status"] = ("seed", np.ones(50, dtype=np.int8))
    data["run_key"] = ("seed", np.arange(50).astype(str))
    figure = histories(data, "trace")
    band = figure.axes[0].collections[0].get_paths()[0].get_extents()
    np.testing.assert_allclose(band.y1, np.quantile(values, 0.95, axis=0).max())
    assert "5 to 95 %" in footnote(figure)


def uneven(larger, smaller):
    """Two groups of which the second lacks runs, as numbers and as histories."""
    values = np.random.default_rng(2).lognormal(size=(2, larger, 3))
    values[1, smaller:] = np.nan
    data = xr.Dataset(
        {
            "error": (("word", "N", "seed"), values[:, None, :, 0]),
            "trace": (("word", "N", "seed", "time"), values[:, None]),
        },
        {"word": ["a", "b"], "N": [10.0], "time": [0.0, 1.0, 2.0], "seed": np.arange(larger)},
    )
    data["run_status"] = (("word", "N", "seed"), np.ones((2, 1, larger), dtype=np.int8))
    data["run_key"] = (("word", "N", "seed"), np.arange(2 * larger).astype(str).reshape(2, 1, larger))
    return data, values


def test_all_bands_of_a_picture_are_of_the_same_quantiles():
    data, values = uneven(25, 16)
    figure = histories(data, "trace")
    for one, band in enumerate(figure.axes[0].collections):
        box = band.get_paths()[0].get_extents()
        np.testing.assert_allclose(box.y1, np.nanquantile(values[one], 0.95, axis=0).max())
    data, values = uneven(EACH + 20, EACH - 20)
    other = data.assign(run_key="at 20, " + data["run_key"].astype(object)).assign_coords(N=[20.0])
    data = xr.concat([data, other], "N")
    assert "band: 5 to 95 % over seed" in footnote(dependence(data))
    assert len([band for band in dependence(data).axes[0].collections if band.get_gid() != "interval"]) == 2
    boxes = [box for box in distribution(data).axes[0].collections if box.get_gid() == "band"]
    assert len(boxes) == 2 * (4 + 4)  # of 220 and of 180 runs


@pytest.mark.parametrize(("count", "images"), [(100, 0), (101, 1)])
def test_more_than_a_thousand_points_are_an_image(count, images):
    text = svg(distribution(many(count, tuple("abcdefghij"))))
    assert text.count("<image ") == images
    assert len(text) < 250_000


@pytest.mark.parametrize(("steps", "images"), [(3, False), (4000, True)])
def test_long_histories_are_an_image(steps, images):
    data, _ = uneven(6, 6)
    long = data.drop_vars("time").isel(time=np.resize([0, 1, 2], steps)).assign_coords(time=np.arange(1.0, steps + 1))
    text = svg(histories(long, "trace"))
    assert ("<image " in text) == images
    assert len(text) < 300_000


def count_boxes(figure):
    """Where each k/n of a figure is drawn."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    words = [text for axes in figure.axes for text in axes.texts if "/" in text.get_text()]
    return [text.get_window_extent(canvas.get_renderer()) for text in words]


def overlapping(boxes):
    return [pair for pair in itertools.combinations(boxes, 2) if pair[0].overlaps(pair[1])]


def test_counts_at_one_place_do_not_meet(failing):
    data = failing.copy()
    data["error"] = xr.where(data["kind"] == "bad", np.nan, data["error"].isel(kind=0)).where(data["seed"] > 0)
    boxes = count_boxes(dependence(data))
    assert (len(boxes), overlapping(boxes)) == (9, [])


@pytest.mark.parametrize(("count", "upright"), [(9, False), (400, True)])
def test_counts_over_groups_stand_upright_where_they_would_meet(count, upright):
    data = many(count, "abcdef")
    data["error"][:, 0] = np.nan
    boxes = count_boxes(distribution(data))
    assert (len(boxes), overlapping(boxes)) == (6, [])
    assert [box.height > box.width for box in boxes] == [upright] * 6


def test_cells_have_as_many_digits_as_tell_them_apart():
    values = xr.DataArray(
        [[0.27638, 0.276381], [0.5, 0.6]], {"a": ["x", "y"], "b": ["u", "v"]}, ["a", "b"], name="error"
    )
    words = texts(heat_map(values.to_dataset(), places=Places(along="a", by="b")))
    assert {"2.76380e-1", "2.76381e-1", "5.00000e-1"} <= set(words)


def test_an_axis_tau_has_cuts_and_no_curves():
    """The first tau with a value stands for the others, whose singular values are the same."""
    data = small()
    both = xr.concat([data.assign_coords(tau=1e-12), data.assign_coords(tau=1e-6)], "tau", data_vars="all")
    both["singular_values"][0, 0, 0, 1] = np.nan
    plain, cut = spectrum(data), spectrum(both)
    for one, other in zip(plain.axes[0].get_lines(), cut.axes[0].get_lines(), strict=False):
        if one.get_gid() == "median":
            np.testing.assert_array_equal(one.get_ydata(), other.get_ydata())
    cuts = [line.get_ydata()[0] for line in cut.axes[0].get_lines() if line.get_gid() == "cut"]
    np.testing.assert_allclose(cuts, [1e-6, 1e-3])
    (own_cut,) = [
        line.get_ydata()[0]
        for line in spectrum(both, Places(at={"tau": 1e-6})).axes[0].get_lines()
        if line.get_gid() == "cut"
    ]
    assert own_cut == pytest.approx(1e-3)
    with pytest.raises(InputError, match="`--by` must not be tau"):
        spectrum(both, Places(by="tau"))


def test_the_spectrum_falls_from_one_and_is_cut_at_the_root_of_tau():
    data = small()
    figure = spectrum(data)
    axes = figure.axes[0]
    sigma = data["singular_values"].isel(dictionary=0, k=0)
    line = next(line for line in axes.get_lines() if line.get_gid() == "median")
    np.testing.assert_allclose(line.get_ydata(), (sigma / sigma.isel(feature=0)).median("seed"))
    assert line.get_xdata()[0] == 1.0
    cut = next(line for line in axes.get_lines() if line.get_gid() == "cut")
    assert cut.get_ydata()[0] == pytest.approx(1e-6)
    ranks = ((sigma / sigma.isel(feature=0)) > 1e-6).sum("feature")
    np.testing.assert_array_equal(ranks, data["rank"].isel(dictionary=0, k=0))


def test_rank_has_a_point_for_each_run():
    data = small()
    figure = rank_error(data)
    drawn = points(figure.axes[0])
    expected = np.stack([data["rank"].values.ravel(), data["error"].values.ravel()], axis=1)
    np.testing.assert_allclose(drawn[np.lexsort(drawn.T)], expected[np.lexsort(expected.T)])
    assert footnote(figure) == "12 of 12 runs"


def test_a_cloud_of_very_many_points_is_thinned_and_says_so():
    data = many(5000, ("a",))
    data["other"] = data["error"] * 2
    figure = scatter(data, "other")
    assert len(points(figure.axes[0])) == MOST
    assert "3,000 of them left out, evenly" in footnote(figure)


# --- fields -----------------------------------------------------------------------------------------------------------


def test_a_field_in_one_dimension():
    data = small()
    figure = fields(data)
    run = data.isel(dictionary=0, k=0, seed=0, time=-1)
    exact, numerical = figure.axes[0].get_lines()
    np.testing.assert_allclose(exact.get_ydata(), run["exact_field"])
    np.testing.assert_allclose(numerical.get_ydata(), run["field"])
    error = figure.axes[1].get_lines()[0].get_ydata()
    np.testing.assert_allclose(error[1:-1], np.abs(run["field"] - run["exact_field"])[1:-1])
    assert np.isnan(error[[0, -1]]).all()  # at the boundary both are zero
    assert footnote(figure) == "dictionary = transnet, k = 1, seed = 0, time = 0.1"


def test_a_field_is_of_the_run_and_the_time_that_are_named():
    data = small()
    at = {"dictionary": "gtransnet", "k": "2", "seed": "1", "time": "0.04"}
    figure = fields(data, Places(at=at))
    run = data.isel(dictionary=1, k=1, seed=1, time=1)
    np.testing.assert_allclose(figure.axes[0].get_lines()[1].get_ydata(), run["field"])
    assert "time = 0.05" in footnote(figure)


@pytest.mark.long
def test_a_field_in_two_dimensions_and_a_slice_of_three():
    flat = fields(small(2))
    assert [axes.get_title() for axes in flat.axes] == ["exact", "numerical", "absolute error"]
    data = small(3)
    for name, others in (("z", "xy"), ("x", "yz")):
        figure = fields(data, Places(at={name: 0.3}))
        near = float(data[name].sel({name: 0.3}, method="nearest"))
        run = data.isel(dictionary=0, k=0, seed=0, time=-1).sel({name: near})
        drawn = np.asarray(figure.axes[1].collections[0].get_array()).reshape(9, 9)
        np.testing.assert_allclose(drawn, run["field"].transpose(*reversed(others)))
        assert figure.axes[0].get_xlabel() == f"coordinate ${others[0]}$"
        assert figure.axes[0].get_ylabel() == f"coordinate ${others[1]}$"
        assert f"{name} = {near:.4g}" in footnote(figure)
    assert "z = 0.5" in footnote(fields(data))


def test_a_field_without_an_exact_solution():
    for dimension in (1, 2):
        figure = fields(small(dimension).drop_vars("exact_field"))
        assert len(figure.axes) == 1


def test_curves_that_cannot_be_compared():
    line = xr.DataArray([0.0, 1.0], dims="x", coords={"x": [0.0, 1.0]})
    with pytest.raises(InputError, match="same points, they differ in x"):
        field_curves(line, line.assign_coords(x=[0.0, 0.5]))
    with pytest.raises(InputError, match="over one direction"):
        field_curves(line.expand_dims(y=[0.0]))
    with pytest.raises(InputError, match="must have points over x"):
        field_curves(line, line.rename(x="y"))


# --- what stands where ------------------------------------------------------------------------------------------------


def test_labels_are_the_file_s_own():
    data = small()
    data["error"].attrs = {"long_name": "an error", "units": "m"}
    data["k"].attrs |= {"long_name": "wave number", "units": "1/m"}
    axes = dependence(data).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("wave number $k$ (1/m)", "an error (m)")
    legend = distribution(data).legends[0]
    assert legend.get_title().get_text() == "dictionary"
    assert [text.get_text() for text in legend.get_texts()] == ["transnet", "gtransnet"]
    assert histories(data).axes[0].get_xlabel() == "time $t$"


def test_axes_can_be_told_their_places():
    data = small()
    figure = distribution(data, "rank", Places(along="dictionary", by="k"))
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["transnet", "gtransnet"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["1", "2"]
    panels = distribution(data, places=Places(panel="k", along="dictionary"))
    assert [axes.get_title() for axes in panels.axes] == ["k = 1", "k = 2"]
    sample = distribution(data, places=Places(over=("seed", "k")))
    assert len(points(sample.axes[0])) == 12
    assert "over seed, k" in footnote(sample)
    held = distribution(data, places=Places(at={"k": "2"}))
    np.testing.assert_allclose(np.sort(points(held.axes[0])[:, 1]), np.sort(data["error"].sel(k=2).values.ravel()))
    assert "at k = 2" in footnote(held)


def test_a_parameter_that_follows_an_axis_can_stand_along(chosen):
    """The pilot's candidates are numbered; what they are is a coordinate over dictionary and candidate."""
    for places in (Places(), Places(along="gamma")):
        lines = [line for line in dependence(chosen, places=places).axes[0].get_lines() if line.get_gid() == "median"]
        assert [line.get_xdata().tolist() for line in lines] == [[1.0, 2.0, 4.0], [2.0, 5.0]]
        assert dependence(chosen, places=places).axes[0].get_xlabel() == r"$\gamma$"


def test_a_parameter_that_differs_within_a_sample_cannot_stand_along(chosen):
    with pytest.raises(InputError, match="must be the same within a sample, gamma follows dictionary"):
        dependence(chosen, places=Places(along="gamma", over=("dictionary", "seed")))


def test_axes_that_have_no_place_are_held_at_their_first_value_and_said():
    data = xr.Dataset({"error": (("a", "b", "c", "d", "seed"), np.ones((2, 2, 2, 2, 3)))})
    data = data.assign_coords({**{name: [1, 2] for name in "abcd"}, "seed": [0, 1, 2]})
    figure = dependence(data)
    assert "at d = 1, the first of 2" in footnote(figure)
    assert footnote(figure).startswith("24 of 24 runs")


def test_many_panels_and_series_are_thinned_and_said():
    data = xr.Dataset({"error": (("n", "p", "s", "seed"), np.ones((2, 9, 40, 2)))})
    data = data.assign_coords(n=[1, 2], p=np.arange(9), s=[f"s{i}" for i in range(40)], seed=[0, 1])
    figure = dependence(data, places=Places(along="n", by="s", panel="p"))
    assert len(figure.axes) == MAX_PANELS
    assert "6 of 9 values of p" in footnote(figure)
    assert "12 of 40 values of s" in footnote(figure)


def test_a_study_without_seeds_has_one_run_in_each_group(without_seed):
    figure = dependence(without_seed, "gain")
    assert len(points(figure.axes[0])) == 0
    assert len(points(figure.axes[0], "median")) == 6
    assert footnote(figure) == "6 of 6 runs"


def test_one_seed_is_a_point_without_a_bar(one_seed):
    axes = distribution(one_seed).axes[0]
    assert len(points(axes)) == 6
    assert len(points(axes, "median")) == 0
    assert "median" not in footnote(distribution(one_seed))


def test_zeros_are_drawn_where_the_others_are_logarithmic():
    data = many(10)
    data["error"][0, 0] = 0.0
    assert distribution(data).axes[0].get_yscale() == "linear"  # nothing declares an error
    data["error"].attrs["estimand"] = "geometric_mean"
    axes = distribution(data).axes[0]
    assert axes.get_yscale() == "symlog"
    assert len(points(axes)) == 20
    data["error"][0, 0] = -1.0
    assert distribution(data).axes[0].get_yscale() == "linear"


def test_scales_are_linear_unless_errors_or_three_decades_and_options_change_them():
    """Accuracies have a linear scale."""
    accuracy = many(10)
    accuracy["run_status"] = (accuracy["error"].dims, np.ones((2, 10), dtype=np.int8))
    accuracy["run_key"] = (accuracy["error"].dims, np.arange(20).astype(str).reshape(2, 10))
    accuracy["error"].values[:] = np.linspace(0.1, 0.9, 20).reshape(2, 10)
    assert distribution(accuracy).axes[0].get_yscale() == "linear"
    accuracy["error"][0, 0] = 1e-4
    assert distribution(accuracy).axes[0].get_yscale() == "log"
    for scale in ("linear", "log"):
        wish = kinds.Wish(look=kinds.Look(yscale=scale))
        assert kinds.drawn(accuracy, "distribution", wish).figure.axes[0].get_yscale() == scale
    with pytest.raises(InputError, match="`--yscale` must be one of linear, log, got 'cubic'"):
        kinds.drawn(accuracy, "distribution", kinds.Wish(look=kinds.Look(yscale="cubic")))
    with pytest.raises(InputError, match="`--xscale` must be linear where values or places are not positive"):
        kinds.drawn(accuracy, "distribution", kinds.Wish(look=kinds.Look(xscale="log")))


# --- which pictures fit -----------------------------------------------------------------------------------------------


def fitting(data, **wish):
    return [(choice.kind, choice.variable) for choice in kinds.fitting(data, kinds.Wish(**wish))]


def test_what_fits_a_result(failing, one_seed, all_failed, without_seed, chosen):
    assert fitting(small()) == [
        ("distribution", "error"), ("dependence", "error"), ("histories", "error_history"),
        ("histories", "energy_history"), ("histories", "norm_history"), ("spectrum", "singular_values"),
        ("rank", "error"), ("comparison", "error"), ("fields", "field"),
    ]  # fmt: skip
    assert ("histories", "trace") in fitting(failing)
    assert "distribution" not in dict(fitting(one_seed))  # the same points as in the dependence
    assert fitting(all_failed) == []
    assert fitting(without_seed) == [("dependence", "gain"), ("heat_map", "gain")]
    assert fitting(chosen) == [("dependence", "error")]
    assert fitting(failing, variable="count") == [("distribution", "count"), ("dependence", "count")]
    assert fitting(failing, variable="trace") == [("histories", "trace")]


WORDS = """
    def method(a, seed):
        words = dict.fromkeys(("rank", "singular_values", "error_full_space"), "gold")
        return {"error": 1.0 / a, "field": [[1.0, 2.0]], **words}
"""


def test_what_has_the_name_of_something_else_is_not_drawn_as_that(tmp_path):
    data = runs(own(tmp_path, "[axes]\na = [1.0, 2.0, 3.0]\nseed = [0, 1, 2]\n", WORDS))
    assert fitting(data) == [("distribution", "error"), ("dependence", "error")]


def test_what_a_study_is_about(failing, all_failed, without_seed):
    assert [kinds.subject(data) for data in (failing, without_seed, all_failed)] == ["error", "gain", None]
    diverged = failing.copy(deep=True)
    diverged["error"][:] = np.nan
    assert kinds.subject(diverged) == "count"


@cache
def drawn(dimension, kind, variable=None):
    """A picture of the small result, drawn once for the tests that only look at it."""
    return kinds.drawn(small(dimension), kind, kinds.Wish(variable))


@pytest.mark.long
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_every_picture_that_fits_has_words_and_is_encoded(dimension):
    before = small(dimension).copy(deep=True)
    for choice in kinds.fitting(small(dimension)):
        made = drawn(dimension, *choice)
        assert made.title
        assert made.caption.endswith(".")
        assert made.alt.endswith(".")
        assert encoded(made.figure, "svg").startswith(b"<?xml")
    xr.testing.assert_identical(small(dimension), before)  # drawing changes nothing


def test_the_words_tell_the_least_and_the_largest(failing):
    words = kinds.drawn(failing, "distribution").alt
    medians = failing["error"].sel(kind=["fast", "slow"]).median("seed")
    assert f"from {float(medians.min()):.3g} (" in words
    assert f"to {float(medians.max()):.3g} (N = 10, slow)" in words
    assert "22 of 36 runs (12 failed, 2 diverged)" in words


def test_the_words_of_a_pilot_name_the_candidates_not_their_numbers(chosen):
    assert "candidate" not in kinds.drawn(chosen, "dependence").alt
    assert "γ = " in kinds.drawn(chosen, "dependence").alt


def test_nothing_to_draw_says_what_became_of_the_runs(all_failed):
    with pytest.raises(InputError, match=r"numbers to draw, got none \(4 failed\)"):
        kinds.drawn(all_failed, "distribution")


@pytest.mark.long
def test_a_variable_without_any_value_is_an_empty_picture(failing):
    empty = failing.copy(deep=True)
    empty["error"][:] = np.nan
    for draw in (distribution, dependence, heat_map):
        assert footnote(draw(empty)).startswith("0 of 36 runs (12 failed, 22 without a value, 2 diverged)") or (
            footnote(draw(empty)).startswith("0 of 36 runs")
        )
    assert "No run has a value" in kinds.drawn(empty, "distribution", kinds.Wish("error")).alt


MISTAKES = {
    "`KIND` must be one of distribution, dependence, heat_map,": lambda: kinds.drawn(small(), "bars"),
    "`--variable` must be one of error, initial_error, rank": lambda: distribution(small(), "eror"),
    "`--along` must be one of dictionary, k, seed": lambda: distribution(small(), places=Places(along="K")),
    "`--along` must be an axis with numbers (k, seed), got dictionary": lambda: dependence(
        small(), places=Places(along="dictionary")
    ),
    "`--by` must be one of the axes dictionary, k, seed, got 'x'": lambda: distribution(small(), places=Places(by="x")),
    "must name different axes, got k twice": lambda: distribution(small(), places=Places(by="k", along="k")),
    "`--over` must be one of the axes dictionary, k, seed, got 'epsilon'": lambda: distribution(
        small(), places=Places(over=("epsilon",))
    ),
    "`--at` must name axes (dictionary, k, seed), got 'tau'": lambda: distribution(
        small(), places=Places(at={"tau": 1})
    ),
    "`k` must be one of 1, 2, got '7'": lambda: distribution(small(), places=Places(at={"k": "7"})),
    "`k` must be one of 1, 2, got 3": lambda: kinds.fitting(small(), kinds.Wish(places=Places(at={"k": 3}))),
    "`--panel` must be one of the axes": lambda: kinds.fitting(small(), kinds.Wish(places=Places(panel="q"))),
    "must have one dimension besides the axes, as time (error_history, energy_history": lambda: histories(
        small(), "error"
    ),
    "one number of each run here, error_history has more, over time": lambda: dependence(small(), "error_history"),
    "put it into `record`": lambda: spectrum(small().drop_vars("singular_values")),
    "`field` must be in the file": lambda: fields(small().drop_vars("field")),
    "`--at` must name dimensions of the field (dictionary, k, seed, time, x), got 'z'": lambda: fields(
        small(), Places(at={"z": 1})
    ),
    "`time` must be a number, got 'late'": lambda: fields(small(), Places(at={"time": "late"})),
    "a heat map must have two axes": lambda: heat_map(small().isel(k=0)),
    "`--output` must end in .png, .pdf, .svg, got .gif": lambda: encoded(distribution(small()), "gif"),
}


@pytest.mark.parametrize("said", MISTAKES)
def test_a_mistake_gets_one_line_that_lists_what_there_is(said):
    with pytest.raises(InputError) as caught:
        MISTAKES[said]()
    assert said in str(caught.value)


# --- on paper ---------------------------------------------------------------------------------------------------------


PICTURES = {
    **{choice.kind: lambda choice=choice: drawn(1, *choice).figure for choice in kinds.fitting(small())},
    "heat_map": lambda: heat_map(small()),
    "slice": lambda: drawn(3, "fields", "field").figure,
    "many": lambda: distribution(many(8334)),
}


@pytest.mark.parametrize("name", PICTURES)
def test_letters_are_large_enough_and_nothing_is_cut_off_or_overlaps(name):
    figure = PICTURES[name]()
    assert figure.get_figwidth() in (3.4, 6.5)  # a column, or a page
    check_layout(figure)


@pytest.mark.long
@pytest.mark.parametrize("name", ["distribution", "dependence", "histories"])
def test_the_same_result_gives_the_same_bytes(name):
    one, other = (kinds.drawn(small(), name).figure for _ in range(2))
    assert svg(one) == svg(other)
    assert png(one, 60) == png(other, 60)
    assert encoded(one, "pdf") == encoded(other, "pdf")
    assert encoded(one, "pdf").startswith(b"%PDF")


def test_series_differ_without_colour():
    data = many(3, tuple("abcdefghi"))
    lines = [
        line for line in distribution(data, places=Places(by="word")).axes[0].get_lines() if line.get_gid() == "runs"
    ]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 9


def test_text_from_a_file_is_drawn_as_it_is(tmp_path):
    """Dollars are no mathematics, and a character that the font lacks is no warning (which would be an error here)."""
    axes = '[axes]\nkind = ["$\\\\frac{", "a_b^c", "\\u6f22\\u5b57", "<b>x</b>"]\nN = [10, 20]\nseed = [0, 1]\n'
    data = runs(own(tmp_path, axes))
    data["error"].attrs["long_name"] = "$\\broken{ \U0001f600 " + "very long " * 40
    data["N"].attrs["units"] = "$"
    for choice in kinds.fitting(data):
        figure = kinds.drawn(data, choice.kind, kinds.Wish(choice.variable)).figure
        assert b"<b>x" not in encoded(figure, "svg")
        png(figure, 50)


def test_the_listed_kinds_are_those_that_there_are():
    studies = (Path(__file__).parents[2] / "studies" / "README.md").read_text()
    table = studies.partition("| kind of picture | shows |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(kinds.KINDS)
    told = " ".join(plot.callback.__doc__.split()).partition("KIND is ")[2].partition(".")[0]
    assert re.split(r", | or ", told) == list(kinds.KINDS)


def test_arranging_keeps_every_run_at_its_place():
    data = small()
    made = arranged(data, "error", Places(along="k", by="dictionary"))
    assert made.values.shape == (1, 2, 2, 3)
    for one, place, seed in itertools.product(range(2), range(2), range(3)):
        assert made.values[0, one, place, seed] == data["error"].values[one, place, seed]
    assert made.describe(0, 1, 1) == "k = 2, gtransnet"
    np.testing.assert_allclose(made.x[0, 0], [1.0, 2.0])


def test_a_comparison_fits_where_two_values_of_some_setup_have_runs():
    data = many(8, ("a", "b", "c"))
    assert comparable(data, "error", Places())
    data["error"][2] = np.nan
    assert comparable(data, "error", Places())
    data["error"][1] = np.nan
    assert not comparable(data, "error", Places())
