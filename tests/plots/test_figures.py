"""Figures as files, on axes of the user and with settings of the user; text of a file is never markup."""

import matplotlib
import numpy as np
import pytest
import xarray as xr
from drawable import AXES, compute_runs, draw, lines_of, request_of, small_result, texts_of, write_study
from matplotlib._pylab_helpers import Gcf
from matplotlib.figure import Figure

from evogt_study.errors import InputError
from evogt_study.plots.canvas import DisplayedFigure, make_panels
from evogt_study.plots.catalogue import choose_plots
from evogt_study.plots.style import STYLES, encode_figure


def cloud(count, groups):
    values = np.random.default_rng(0).lognormal(size=(len(groups), count))
    return xr.Dataset({"error": (("word", "seed"), values)}, {"word": list(groups), "seed": np.arange(count)})


def series(steps):
    values = np.random.default_rng(2).lognormal(size=(6, steps))
    data = xr.Dataset({"trace": (("seed", "time"), values)}, {"time": np.arange(steps), "seed": np.arange(6)})
    return data.assign(run_status=("seed", ["ok"] * 6))


@pytest.mark.parametrize(("form", "begin"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_the_same_result_gives_the_same_bytes_and_settings_stay(form, begin):
    before = dict(matplotlib.rcParams)
    figure = draw(small_result(), "distribution").figure
    expected = encode_figure(figure, form, 60)
    assert (
        expected
        == encode_figure(figure, form, 60)
        == encode_figure(draw(small_result(), "distribution").figure, form, 60)
    )
    assert expected.startswith(begin)
    assert dict(matplotlib.rcParams) == before
    with pytest.raises(InputError, match=r"`--output` must end in .png, .pdf, .svg, got .gif"):
        encode_figure(Figure(), "gif")


@pytest.mark.parametrize(
    ("data", "kind", "variable", "images", "limit"),
    [
        (cloud(100, "abcdefghij"), "distribution", "error", 0, 250_000),
        (cloud(101, "abcdefghij"), "distribution", "error", 1, 250_000),
        (series(3), "time_series", "trace", 0, 300_000),
        (series(6000), "time_series", "trace", 1, 300_000),
    ],
)
def test_many_points_are_an_image(data, kind, variable, images, limit):
    text = encode_figure(draw(data, kind, variable).figure, "svg")
    assert text.count(b"<image ") == images
    assert len(text) < limit


def test_a_notebook_shows_the_figure_at_its_size_without_pyplot():
    figure = draw(small_result(), "distribution").figure
    assert isinstance(figure, DisplayedFigure)
    image, size = figure._repr_png_()
    assert image.startswith(b"\x89PNG")
    assert size["width"] == round(96 * 3.4)
    assert figure._repr_svg_().startswith("<?xml")
    assert Gcf.get_all_fig_managers() == []  # the figures of pyplot


def test_series_differ_without_colour():
    drawn = lines_of(draw(cloud(3, "abcdefghi"), "distribution", "error", hue="word").figure, "runs")
    assert len({(line.get_color(), line.get_marker()) for line in drawn}) == 9
    assert len({colour for colour, _ in STYLES}) == len({dashes for _, dashes in STYLES}) == len(STYLES)


@pytest.mark.parametrize(("kind", "count"), [("distribution", 1), ("time_series", 2)])
def test_plots_on_given_axes_leave_the_rest_of_the_figure(kind, count):
    figure = Figure(figsize=(9.0, 3.0))
    axes = figure.subplots(1, count + 1)
    assert small_result().evogt.plot(kind, ax=axes[0] if count == 1 else axes[:count]) is figure
    assert tuple(figure.get_size_inches()) == (9.0, 3.0)
    assert [each.has_data() for each in axes] == [True] * count + [False]
    assert any(" of " in each.get_title(loc="right") for each in axes)  # how many runs
    with pytest.raises(InputError, match=f"`ax` must be as many axes as there are panels, {count}, got {count + 1}"):
        small_result().evogt.plot(kind, ax=axes)
    empty = Figure(figsize=(6.5, 2.0))
    assert small_result().evogt.plot(kind, ax=empty) is empty


def test_sizes_title_and_labels_are_the_user_s():
    with matplotlib.rc_context({"font.size": 20.0, "figure.figsize": (5.0, 4.0)}):
        figure = draw(small_result(), "distribution").figure
    assert (figure.axes[0].xaxis.label.get_size(), figure.get_figwidth()) == (16.0, 5.0)
    figure = draw(small_result(), "time_series", size=(2.5, 5.0)).figure
    assert tuple(figure.get_size_inches()) == (2.5, 5.0)
    assert len({round(axes.get_position().x0, 2) for axes in figure.axes}) == 1  # narrow: one panel in a row
    columns = [make_panels(count, request_of(ax=Figure(figsize=(6.5, 1.0)))).columns for count in (1, 3, 4, 6)]
    assert columns == [1, 3, 2, 3]
    labels = {"title": "Errors at $\\gamma$", "xlabel": "shape $\\gamma_1$", "ylabel": "$e$ for 5 $"}
    for kind, data in (
        ("distribution", small_result()),
        ("distribution", small_result().isel(dictionary=0, drop=True)),
    ):
        figure = draw(data, kind, **labels).figure
        assert set(labels.values()) <= {line for text in texts_of(figure) for line in text.split("\n")}


def test_text_of_a_file_is_no_markup(tmp_path):
    """Dollars are no mathematics, and a character that the font lacks is no warning (which would be an error here)."""
    axes = '[axes]\nkind = ["$\\\\frac{", "a_b^c", "\\u6f22\\u5b57", "<b>x</b>"]\nN = [10, 20]\nseed = [0, 1]\n'
    data = compute_runs(write_study(tmp_path, axes))
    data["error"].attrs["long_name"] = "$\\broken{ \U0001f600 " + "very long " * 40
    data["N"].attrs["units"] = "$"
    assert "$$" not in AXES
    for choice in choose_plots(data):
        assert b"<b>x" not in encode_figure(draw(data, choice.kind, choice.variable).figure, "svg")
