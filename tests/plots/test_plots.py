"""Pictures: the right values at the right place, on the right scale, and the same bytes each time."""

import re
import subprocess
import sys
import threading

import matplotlib
import numpy as np
import pytest
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from evogt_study.errors import InputError
from evogt_study.plots import STYLES, energy_histories, field_panels, png, svg


def field(values, x=None, y=None, dims=("x", "y")):
    x = np.linspace(0.0, 1.0, values.shape[0]) if x is None else x
    y = np.linspace(0.0, 1.0, values.shape[1]) if y is None else y
    array = xr.DataArray(values, dims=("x", "y"), coords={"x": x, "y": y})
    return array.transpose(*dims)


def nonseparable(points=21, time=0.06):
    """The exact solution of the nonseparable benchmark."""
    x = np.linspace(0.0, 1.0, points)
    modes = [(2, 3, 1.0, 1), (6, 5, 0.45, 4), (9, 7, 0.25, 7)]
    terms = [
        amplitude * np.exp(-rate * time) * np.outer(np.sin(kx * np.pi * x), np.sin(ky * np.pi * x))
        for kx, ky, amplitude, rate in modes
    ]
    return field(sum(terms))


def history(values, end=0.5):
    return xr.DataArray(values, dims="time", coords={"time": np.linspace(0.0, end, len(values))})


def mesh(axes):
    (found,) = axes.collections
    return found


EXACT = nonseparable()
FIELDS = (EXACT, EXACT + 0.01 * EXACT["x"])
HISTORIES = {"finite differences": history([4.0, 3.0, 2.0]), "GTransNet": history([8.0, 6.5, 4.5, 4.0])}


def test_three_panels_with_a_name_each():
    figure = field_panels(*FIELDS)
    assert isinstance(figure, Figure)
    assert [axes.get_title() for axes in figure.axes] == ["exact", "numerical", "absolute error"]
    assert all(axes.get_aspect() == 1.0 for axes in figure.axes)


def test_exact_and_numerical_share_a_scale_that_is_symmetric_and_the_error_has_its_own():
    exact, numerical, error = (mesh(axes) for axes in field_panels(EXACT, 1.5 * EXACT).axes)
    limit = 1.5 * float(np.abs(EXACT).max())
    assert exact.get_clim() == numerical.get_clim() == (-limit, limit)
    assert exact.get_cmap().name == numerical.get_cmap().name == "RdBu_r"
    assert error.get_clim() == pytest.approx((0.0, 0.5 * float(np.abs(EXACT).max())))
    assert error.get_cmap().name == "viridis"
    assert [mapped.colorbar is not None for mapped in (exact, numerical, error)] == [False, True, True]


@pytest.mark.parametrize("dims", [("x", "y"), ("y", "x")])
def test_x_is_horizontal_and_y_vertical(dims):
    """A spot at large x and small y is drawn at the lower right, in whatever order the dimensions come."""
    values = np.zeros((5, 4))
    values[4, 0] = 1.0
    axes = field_panels(field(values, dims=dims), field(values)).axes[0]
    drawn = np.asarray(mesh(axes).get_array()).reshape(4, 5)
    assert drawn[0, 4] == 1.0
    assert drawn.sum() == 1.0
    assert axes.get_xlim() == (0.0, 1.0)
    assert axes.get_ylim() == (0.0, 1.0)  # upwards


def test_in_the_picture_the_spot_is_at_the_lower_right():
    values = np.zeros((21, 21))
    values[14:19, 2:7] = 1.0
    figure = field_panels(field(values), field(values))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = np.asarray(canvas.buffer_rgba())[..., :3] / 255.0
    box = figure.axes[0].get_window_extent()
    height = image.shape[0]
    panel = image[round(height - box.y1) + 3 : round(height - box.y0) - 3, round(box.x0) + 3 : round(box.x1) - 3]
    red = np.abs(panel - np.asarray(to_rgb(matplotlib.colormaps["RdBu_r"](1.0)))).max(axis=-1) < 0.05
    rows, columns = np.nonzero(red)
    assert rows.mean() / panel.shape[0] == pytest.approx(0.8, abs=0.05)
    assert columns.mean() / panel.shape[1] == pytest.approx(0.8, abs=0.05)


def test_the_error_is_the_absolute_difference():
    drawn = np.asarray(mesh(field_panels(*FIELDS).axes[2]).get_array()).reshape(EXACT.T.shape)
    np.testing.assert_allclose(drawn, np.abs(FIELDS[1] - FIELDS[0]).T)


def test_points_may_be_spaced_unevenly():
    nodes = np.polynomial.legendre.leggauss(6)[0] / 2 + 0.5
    points = field(np.ones((6, 6)), nodes, nodes)
    corners = mesh(field_panels(points, points).axes[0]).get_coordinates()[0, :, 0]
    np.testing.assert_allclose(corners[1:-1], (nodes[1:] + nodes[:-1]) / 2)


@pytest.mark.long
def test_axes_are_named_as_the_coordinates_are():
    plain = field_panels(*FIELDS).axes
    assert (plain[0].get_xlabel(), plain[0].get_ylabel()) == ("x", "y")
    named = EXACT.copy()
    named["x"].attrs["label"], named["y"].attrs["label"] = "coordinate $x$", "coordinate $y$"
    axes = field_panels(named, named).axes
    assert [panel.get_xlabel() for panel in axes] == ["coordinate $x$"] * 3
    assert axes[0].get_ylabel() == "coordinate $y$"


def test_a_field_of_zeros_and_one_with_holes_can_be_drawn():
    nothing = field(np.zeros((4, 4)))
    assert mesh(field_panels(nothing, nothing).axes[0]).get_clim() == (-1.0, 1.0)
    holes = nothing.copy()
    holes[1, 1] = np.nan
    assert png(field_panels(nothing, holes), 50).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("exact", "numerical", "said"),
    [
        (EXACT.isel(y=0), EXACT, "the exact field must have points over dimensions x and y, got {'x': 21}"),
        (EXACT, EXACT.rename(y="z"), "the numerical field must have points"),
        (EXACT, nonseparable(11), "must be at the same points, they differ in x"),
        (EXACT, EXACT.assign_coords(y=EXACT["y"] ** 2), "they differ in y"),
        (EXACT.isel(x=[]), EXACT, "the exact field must have points"),
    ],
)
def test_fields_that_cannot_be_compared(exact, numerical, said):
    with pytest.raises(InputError) as caught:
        field_panels(exact, numerical)
    assert said in str(caught.value)


def test_coordinates_may_differ_by_rounding():
    moved = EXACT.assign_coords(x=EXACT["x"] + 1e-16)
    assert len(field_panels(EXACT, moved).axes) == 3


def test_energies_start_at_one_and_keep_their_times():
    (axes,) = energy_histories(HISTORIES).axes
    first, second = axes.get_lines()
    np.testing.assert_allclose(first.get_ydata(), [1.0, 0.75, 0.5])
    np.testing.assert_allclose(second.get_ydata(), [1.0, 0.8125, 0.5625, 0.5])
    np.testing.assert_allclose(first.get_xdata(), [0.0, 0.25, 0.5])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(HISTORIES)
    assert axes.get_xlabel() == "time $t$"
    assert "E_q(t)" in axes.get_ylabel()
    assert "E_q(0)" in axes.get_ylabel()


def test_lines_differ_in_dashes_and_in_colour():
    (axes,) = energy_histories(HISTORIES).axes
    first, second = axes.get_lines()
    assert (first.get_linestyle(), second.get_linestyle()) == ("-", "--")
    assert first.get_color() != second.get_color()
    assert len({colour for colour, _ in STYLES}) == len({dashes for _, dashes in STYLES}) == len(STYLES)


def test_more_histories_than_styles():
    many = {str(number): history([2.0, 1.0]) for number in range(len(STYLES) + 2)}
    assert len(energy_histories(many).axes[0].get_lines()) == len(many)


@pytest.mark.parametrize(
    ("histories", "said"),
    [
        ({}, "must hold at least one"),
        ({"a": history([0.0, 1.0])}, "the history 'a' cannot be divided by its first value, 0.0"),
        ({"a": history([np.nan, 1.0])}, "first value, nan"),
        ({"a": history([])}, "must have values over time alone"),
        ({"a": history([1.0, 2.0]).expand_dims(seed=[0])}, "over time alone, got {'seed': 1, 'time': 2}"),
    ],
)
def test_histories_that_cannot_be_drawn(histories, said):
    with pytest.raises(InputError) as caught:
        energy_histories(histories)
    assert said in str(caught.value)


@pytest.mark.long
@pytest.mark.parametrize("make", [lambda: field_panels(*FIELDS), lambda: energy_histories(HISTORIES)])
def test_the_same_input_gives_the_same_bytes(make):
    figure = make()
    assert svg(figure) == svg(figure) == svg(make())
    assert png(figure) == png(figure) == png(make())
    assert "<dc:date>" not in svg(figure)


@pytest.mark.parametrize("make", [lambda: field_panels(*FIELDS), lambda: energy_histories(HISTORIES)])
def test_letters_are_large_enough_and_nothing_is_cut_off(make):
    figure = make()
    renderer = FigureCanvasAgg(figure).get_renderer()
    inside = figure.bbox
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert box.x0 >= inside.x0
        assert box.y0 >= inside.y0
        assert box.x1 <= inside.x1
        assert box.y1 <= inside.y1
        parts = [axes, *axes.child_axes]  # a panel's colour bar is its child
        labels = [axes.title, axes.xaxis.label, axes.yaxis.label]
        labels += [label for part in parts for label in [*part.get_xticklabels(), *part.get_yticklabels()]]
        assert min(label.get_fontsize() for label in labels) >= 7.0


def test_svg_has_the_paper_s_width_and_png_the_resolution():
    figure = field_panels(*FIELDS)
    assert float(re.search(r'width="([\d.]+)pt"', svg(figure))[1]) == pytest.approx(6.5 * 72)
    assert int.from_bytes(png(figure, 100)[16:20]) == 650


def test_threads_draw_what_one_thread_draws():
    expected, found = svg(energy_histories(HISTORIES)), []

    def draw():
        found.append(svg(energy_histories(HISTORIES)))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_settings_are_left_as_they_were():
    before = dict(matplotlib.rcParams)
    svg(energy_histories(HISTORIES))
    assert dict(matplotlib.rcParams) == before


def test_no_pyplot_and_no_display_is_needed():
    code = "import sys, evogt_study.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
