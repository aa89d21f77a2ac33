"""Plot the effect of each axis value relative to the leader of its setup, with confidence intervals."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from evogt_study.analysis.comparison import compare
from evogt_study.analysis.runs import DRAWN, find_finished_keys, labels_as_typed, select_point
from evogt_study.errors import InputError
from evogt_study.inference.comparisons import GEOMETRIC_MEAN, MARGIN, MEAN, MIN_UNITS, RATIO, WIN
from evogt_study.inference.kernels import Array
from evogt_study.plots import groups, style
from evogt_study.plots.canvas import PlottedFigure, find_requested_size, make_canvas, wrap_label
from evogt_study.plots.groups import PlotRequest
from evogt_study.schema.variables import read_direction
from evogt_study.study.case_space import join_names

MIN_SIGN_UNITS = 6  # fewer units cannot reject at 5 % by the sign test
MAX_SETUPS, MAX_CONCLUSIONS = 24, 3  # rows of a figure, and conclusions in an alternative text


def draw_comparison(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw the effect of each value of `hue`, by default the first axis of strings, over the leader of its setup."""
    made = request.compared if request.compared is not None else compare_axis(data, variable, request)
    names, neutral = labels_as_typed(made, made.attrs["dim"]), 1.0 if made.attrs["scale"] == RATIO else 0.0
    places, dims = [*np.ndindex(made["leader"].shape)], made["leader"].dims
    more, cells = len(places) - MAX_SETUPS, [made.isel(dict(zip(dims, at, strict=True))) for at in places[:MAX_SETUPS]]
    # labels of rows take 0.4 of the width; a figure for which a column is too narrow has the width of a page
    setups, size = _list_setups(made)[:MAX_SETUPS], find_requested_size(request)
    per_inch = 72.0 / (0.53 * style.find_font_size())
    width = (size or (style.COLUMN_WIDTH,))[0]
    longest = max((len(value) for setup in setups for value in setup), default=0)
    if size is None and longest > int(0.4 * width * per_inch):
        width = style.TEXT_WIDTH
    room = int(0.4 * width * per_inch)
    labels = [wrap_label(style.to_drawable(", ".join(each) or f"all of {variable}", 3 * room), room) for each in setups]
    left = max(len(line) for label in labels for line in label.split("\n")) / per_inch + 0.35  # ticks and margins
    beside = max(16, int(14.2 * 8.0 / style.find_font_size("axes.labelsize") * (width - left)))
    xlabel = wrap_label(f"{groups.make_label(data[variable])}: {_describe_effect(made)}", beside)
    lines = max(label.count("\n") + 1 for label in labels)
    pitch = max(0.16 * max(1, len(names) - 1) ** 0.5, 0.04 + 0.125 * lines)
    height = 0.9 + pitch * len(cells) + 0.14 * max(0, xlabel.count("\n") - 1)
    canvas = make_canvas(1, 1, (width, height), request)
    (axes,) = canvas.axes
    drawn = np.concatenate([np.zeros(0), *(_draw_row(axes, row, cell) for row, cell in enumerate(cells))])
    axes.axvline(neutral, color=style.QUIET, linewidth=0.8)
    style.scale_axis(axes, "x", drawn, 3.0 if neutral else np.inf)
    axes.set_yticks(range(len(cells)), labels=labels)
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.set_xlabel(xlabel)
    marks = [style.choose_series_style(one) for one in range(len(names))]
    handles = [Line2D([], [], color=m.colour, marker=m.marker, markersize=4.5, linestyle="none") for m in marks]
    title = style.to_drawable(str(made.attrs["dim"]), groups.MAX_LABEL)
    canvas.add_legend(handles, [style.to_drawable(name) for name in names], title, lines=False)
    few = sum(not _has_effect(cell) for cell in cells)
    texts = [
        f"{100.0 * made.attrs['confidence']:g} % confidence intervals",
        "open marker: not significantly different from the leader",
        f"{few} of {len(cells)} setups have too few values to compare" if few else "",
        f"{more} more setups are not shown" if more > 0 else "",
    ]
    canvas.add_footnote("; ".join(filter(None, texts)))
    meaning = "Effect of each value over the leader of its setup, with confidence intervals."
    return canvas.finish(f"comparison of {variable}", meaning, *_describe(data, variable, request, made))


def _describe(data: xr.Dataset, variable: str, request: PlotRequest, made: xr.Dataset) -> tuple[str, str]:
    """Return the sentence on the compared values, and the alternative text with the first conclusions."""
    texts = made["conclusion"].values.ravel().tolist()
    lines = [f"{name}: {text}" if name else text for name, text in zip(name_setups(made), texts, strict=True)]
    if len(texts) > MAX_CONCLUSIONS:
        lines[MAX_CONCLUSIONS:] = [f"{len(texts) - MAX_CONCLUSIONS} more setups."]
    over = tuple(str(made.attrs["over"]).split())
    chosen = replace(request, x=None, hue=made.attrs["dim"], col=None, over=over)
    runs = groups.group_runs(data, variable, chosen, wanted=("hue",), pooled=True, max_hue=None)
    at = "".join(f", at {name} = {value}" for name, value in request.at.items())
    listed = ((name, join_names(labels_as_typed(made, str(name)), groups.MAX_LISTED)) for name in made["leader"].dims)
    setups = " and ".join(f"{name} = {values}" for name, values in listed)
    against = f", for {setups}" if setups else ""
    sizes = ", ".join(f"{data.sizes[name]:,} values of {name}" for name in over)
    counts = runs.describe_counts()
    subject = f"{runs.title} by {runs.hue.list_values()}{against}, over {sizes}{at}; {counts}"
    return f"Comparison by {made.attrs['dim']}. {' '.join(lines)} {counts}.", subject


def _describe_effect(found: xr.Dataset) -> str:
    """Return the name of the effect, such as "median ratio to the lowest"."""
    scale, better = str(found.attrs["scale"]), str(found.attrs["better"]) or "lower"
    kind = {RATIO: "ratio", MARGIN: "wins less losses"}.get(scale, "difference")
    kinds = {WIN: f"median {kind}", MEAN: f"{kind} of means", GEOMETRIC_MEAN: "ratio of geometric means"}
    leader = {"lower": "lowest", "higher": "highest"}.get(better, better)
    return f"{kinds[str(found.attrs['estimand'])]} {'to' if scale == RATIO else 'from'} the {leader}"


def _has_effect(cell: xr.Dataset) -> bool:
    """Return True if a setup has an effect on the scale of the figure."""
    return bool(cell["leader"].item()) and cell["scale"].item() == cell.attrs["scale"]


def _draw_row(axes: Axes, row: int, cell: xr.Dataset) -> Array:
    """Draw the leader of one setup at the neutral value and all other values with intervals.  Return all numbers."""
    if not _has_effect(cell):
        return np.zeros(0)
    effects, limits, p = (cell[name].values for name in ("over_leader", "over_leader_ci", "p_over_leader"))
    leader, neutral = str(cell["leader"].item()), 1.0 if cell.attrs["scale"] == RATIO else 0.0
    names, drawn = labels_as_typed(cell, str(cell.attrs["dim"])), list[Array]()
    for number, name in enumerate(names):
        colour, _, marker = style.choose_series_style(number)
        look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": "none"}
        if name == leader:
            axes.plot([neutral], [row], markersize=4.5, gid="leader", zorder=2.1, **look)
        elif np.isfinite(effects[number]):
            height = row + 0.5 * ((number + 0.5) / len(names) - 0.5)
            if np.isfinite(limits[number]).all():
                axes.plot(limits[number], [height] * 2, color=colour, linewidth=1.2, gid="interval")
                drawn.append(limits[number])
            inside = colour if p[number] <= 1.0 - cell.attrs["confidence"] + 1e-12 else "white"
            axes.plot(effects[[number]], [height], markersize=4.0, gid="effect", markerfacecolor=inside, **look)
            drawn.append(effects[[number]])
    return np.concatenate([np.zeros(0), *drawn])


def compare_axis(data: xr.Dataset, variable: str, request: PlotRequest) -> xr.Dataset:
    """Compare the values of the axis `hue`, or of the first axis of strings, in every setup."""
    groups.get_numeric_array(data, variable)
    here, axis, over = _choose_comparison(data, variable, request)
    if axis is None:
        least = _find_min_units(data[variable])
        raise InputError(f"`--hue` must be an axis of several values, and --over must have {least} points")
    return compare(here[variable], axis, over, planned=find_finished_keys(here))


def name_setups(found: xr.Dataset) -> list[str]:
    """Return the names of the setups of a comparison, such as "epsilon = 0.1, N = 20"."""
    return [", ".join(each) for each in _list_setups(found)]


def _list_setups(found: xr.Dataset) -> list[list[str]]:
    """Return texts such as "epsilon = 0.1" for each setup and each axis with several values."""
    names = [str(name) for name in found["leader"].dims]
    return [
        [f"{name} = {value}" for name, value in zip(names, values, strict=True) if found.sizes[name] > 1]
        for values in product(*(labels_as_typed(found, name) for name in names))
    ]


def _find_min_units(values: xr.DataArray) -> int:
    """Return the least number of units for a test of the declared estimand."""
    return MIN_UNITS.get(read_direction(values)[1], MIN_SIGN_UNITS)


def _choose_comparison(
    data: xr.Dataset, variable: str, request: PlotRequest
) -> tuple[xr.Dataset, str | None, tuple[str, ...]]:
    """Return the selected runs, the axis to compare and the sample.  The axis is None if nothing can be compared."""
    here = select_point(data, request.at, groups.find_axes(data, variable))
    axes, over = groups.find_axes(here, variable), tuple(request.over or (DRAWN,))
    named = [request.hue] if request.hue in axes else [name for name in axes if data[name].dtype.kind in "OU"]
    found = next((name for name in named if name and here.sizes[name] > 1 and name not in over), None)
    few = not set(over) <= set(axes) or math.prod(here.sizes[name] for name in over) < _find_min_units(here[variable])
    return here, None if few else found, over


def has_comparison(data: xr.Dataset, variable: str, request: PlotRequest) -> bool:
    """Return True if two axis values of a setup have enough runs with values."""
    here, axis, over = _choose_comparison(data, variable, request)
    if axis is None:
        return False
    present = (abs(here[variable]) < np.inf).sum(over)
    return bool(((present >= _find_min_units(here[variable])).sum(axis) > 1).any())
