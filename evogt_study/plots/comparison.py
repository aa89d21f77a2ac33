"""Plot a comparison: the effect of each axis value over the leader of its setup, with confidence intervals."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from evogt_study.analysis.comparison import compare
from evogt_study.analysis.runs import DRAWN, keys_of_finished_runs, labels_as_typed
from evogt_study.errors import InputError
from evogt_study.inference.comparisons import GEOMETRIC_MEAN, MARGIN, MEAN, MIN_UNITS, RATIO, WIN
from evogt_study.inference.kernels import Array
from evogt_study.plots import groups, style
from evogt_study.plots.canvas import Plot, PlotRequest, new_canvas, requested_size, wrap_label
from evogt_study.schema.variables import direction_and_estimand
from evogt_study.study.case_space import join_names

MIN_SIGN_UNITS = 6
"""Fewest units at which the sign test can reject at 5 %."""
MAX_SETUPS = 24
"""Rows of a figure: with more their labels meet on a page."""
MAX_CONCLUSIONS = 3
"""Setups whose conclusion an alternative text has."""


def draw_comparison(data: xr.Dataset, variable: str, request: PlotRequest) -> Plot:
    """Draw the effect of each value of the axis `hue`, by default the first of strings, over the leader of its setup.

    An open marker is not significantly different from the leader.  Raises InputError if there is no axis to compare.
    """
    made = request.compared
    if made is None:
        made = compare_axis(data, variable, request.roles)
    names, neutral = labels_as_typed(made, made.attrs["dim"]), 1.0 if made.attrs["scale"] == RATIO else 0.0
    leaders = made["leader"]
    cells = [made.isel(dict(zip(leaders.dims, place, strict=True))) for place in np.ndindex(*leaders.shape)]
    cells = cells[:MAX_SETUPS]
    labels, figure_width = _label_rows(made, variable, request)
    lines = max(label.count("\n") + 1 for label in labels)
    width = 0.053 * style.tick_size() / 7.0 * max(len(line) for label in labels for line in label.split("\n"))
    # 0.35 in: ticks and margins
    room = max(16, int(14.2 * 8.0 / style.label_size() * (figure_width - width - 0.35)))
    xlabel = wrap_label(f"{groups.label_of(data[variable])}: {_describe_effect(made)}", room)
    pitch = max(0.16 * max(1, len(names) - 1) ** 0.5, 0.04 + 0.125 * lines)
    height = 0.9 + pitch * len(cells) + 0.14 * max(0, xlabel.count("\n") - 1)
    canvas = new_canvas(1, 1, (figure_width, height), request)
    (axes,) = canvas.axes
    axes.tick_params(labelsize=style.tick_size(), which="both")
    axes.set_axisbelow(True)
    axes.grid(visible=canvas.is_own, color="0.9", linewidth=0.5)
    ends = [end for row, cell in enumerate(cells) for end in _draw_row(axes, row, cell)]
    drawn = np.concatenate([np.zeros(0), *ends])
    axes.axvline(neutral, color=style.QUIET, linewidth=0.8)
    style.scale_axis(axes, "x", drawn[np.isfinite(drawn)], 3.0 if neutral else np.inf)
    axes.set_yticks(range(len(cells)), labels=labels, fontsize=style.tick_size())
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.set_xlabel(xlabel, fontsize=style.label_size())
    marks = [style.series_style(one) for one in range(len(names))]
    handles = [Line2D([], [], color=m.colour, marker=m.marker, markersize=4.5, linestyle="none") for m in marks]
    canvas.add_legend(
        handles,
        [style.to_drawable(name) for name in names],
        style.to_drawable(str(made.attrs["dim"]), groups.MAX_LABEL),
        lines=False,
    )
    few = sum(not _has_effect(cell) for cell in cells)
    more = made["leader"].size - len(cells)
    texts = [
        f"{100.0 * made.attrs['confidence']:g} % confidence intervals",
        "open marker: not significantly different from the leader",
        f"{few} of {len(cells)} setups have too few values to compare" if few else "",
        f"{more} more setups are not shown" if more else "",
    ]
    canvas.add_footnote("; ".join(filter(None, texts)))
    meaning = "Effect of each value over the leader of its setup, with confidence intervals."
    return canvas.finish(f"comparison of {variable}", meaning, *_describe(data, variable, request.roles, made))


def _describe(data: xr.Dataset, variable: str, roles: groups.PlotRoles, made: xr.Dataset) -> tuple[str, str]:
    """Return the alternative text, with the first conclusions, and the sentence on the compared values."""
    texts = made["conclusion"].values.ravel().tolist()
    lines = [f"{name}: {text}" if name else text for name, text in zip(setup_names(made), texts, strict=True)]
    if len(texts) > MAX_CONCLUSIONS:
        lines[MAX_CONCLUSIONS:] = [f"{len(texts) - MAX_CONCLUSIONS} more setups."]
    over = tuple(str(made.attrs["over"]).split())
    chosen = replace(roles, x=None, hue=made.attrs["dim"], col=None, over=over)
    runs = groups.group_runs(data, variable, chosen, wanted=("hue",), pooled=True, max_hue=None)
    at = "".join(f", at {name} = {value}" for name, value in roles.at.items())
    setups = [
        f"{name} = {join_names(labels_as_typed(made, str(name)), groups.MAX_LISTED)}" for name in made["leader"].dims
    ]
    against = f", for {' and '.join(setups)}" if setups else ""
    sizes = ", ".join(f"{data.sizes[name]:,} values of {name}" for name in over)
    counts = runs.describe_counts()
    subject = f"{runs.title} by {runs.hue.list_values()}{against}, over {sizes}{at}; {counts}"
    return f"Comparison by {made.attrs['dim']}. {' '.join(lines)} {counts}.", subject


def _describe_effect(found: xr.Dataset) -> str:
    """Return the effect: "median ratio to the lowest"."""
    scale, better = str(found.attrs["scale"]), str(found.attrs["better"]) or "lower"
    kind = {RATIO: "ratio", MARGIN: "wins less losses"}.get(scale, "difference")
    kind = {WIN: f"median {kind}", MEAN: f"{kind} of means", GEOMETRIC_MEAN: "ratio of geometric means"}[
        str(found.attrs["estimand"])
    ]  # fmt: skip
    leader = {"lower": "lowest", "higher": "highest"}.get(better, better)
    return f"{kind} {'to' if scale == RATIO else 'from'} the {leader}"


def _has_effect(cell: xr.Dataset) -> bool:
    """Test for a setup with an effect on the scale of the figure."""
    return bool(cell["leader"].item()) and cell["scale"].item() == cell.attrs["scale"]


def _label_rows(made: xr.Dataset, variable: str, request: PlotRequest) -> tuple[list[str], float]:
    """Return a label for each row, on lines that take 0.4 of the width, and the width of the figure in inches.

    A figure for which a column is too narrow has the width of a page.
    """
    setups = _setup_values(made)[:MAX_SETUPS]
    per_inch = 72.0 / (0.53 * style.tick_size())
    width = (requested_size(request) or (style.COLUMN_WIDTH,))[0]
    longest = max((len(value) for setup in setups for value in setup), default=0)
    if requested_size(request) is None and longest > int(0.4 * width * per_inch):
        width = style.TEXT_WIDTH
    room = int(0.4 * width * per_inch)
    return [
        wrap_label(style.to_drawable(", ".join(setup) or f"all of {variable}", 3 * room), room) for setup in setups
    ], width


def _draw_row(axes: Axes, row: int, cell: xr.Dataset) -> list[Array]:
    """Draw one setup: the leader at the neutral value, the others with their intervals; return the drawn numbers."""
    if not _has_effect(cell):
        return []
    effects, limits, p = (cell[name].values for name in ("over_leader", "over_leader_ci", "p_over_leader"))
    leader, neutral = str(cell["leader"].item()), 1.0 if cell.attrs["scale"] == RATIO else 0.0
    names, drawn = labels_as_typed(cell, str(cell.attrs["dim"])), list[Array]()
    for number, name in enumerate(names):
        mark = style.series_style(number)
        if name == leader:
            axes.plot(
                [neutral], [row], color=mark.colour, marker=mark.marker, markersize=4.5, linestyle="none", gid="leader",
                zorder=2.1,
            )  # fmt: skip
        elif np.isfinite(effects[number]):
            height = row + 0.5 * ((number + 0.5) / len(names) - 0.5)
            if np.isfinite(limits[number]).all():
                axes.plot(limits[number], [height] * 2, color=mark.colour, linewidth=1.2, gid="interval")
                drawn.append(limits[number])
            significant = bool(p[number] <= 1.0 - cell.attrs["confidence"] + 1e-12)
            axes.plot(
                effects[[number]], [height], color=mark.colour, marker=mark.marker, markersize=4.0, linestyle="none",
                gid="effect", markerfacecolor=mark.colour if significant else "white",
            )  # fmt: skip
            drawn.append(effects[[number]])
    return drawn


def compare_axis(data: xr.Dataset, variable: str, roles: groups.PlotRoles) -> xr.Dataset:
    """Compare the values of the axis `hue`, or of the first axis of strings, in every setup.

    Raises InputError if there is no such axis, or if the sample has too few points.
    """
    groups.numeric_array(data, variable)
    axis = axis_to_compare(data, variable, roles)
    if axis is None:
        least = min_units(data[variable])
        raise InputError(f"`--hue` must be an axis of several values, and --over have {least} points, to compare them")
    here = groups.select_point(data, roles.at, groups.axes_of(data, variable))
    return compare(here[variable], axis, _sample_axes(here, variable, roles), planned=keys_of_finished_runs(here))


def setup_names(found: xr.Dataset) -> list[str]:
    """Return the names of the setups of a comparison: "epsilon = 0.1, N = 20"."""
    return [", ".join(each) for each in _setup_values(found)]


def min_units(values: xr.DataArray) -> int:
    """Return the fewest units of a test of the declared estimand."""
    return MIN_UNITS.get(direction_and_estimand(values)[1], MIN_SIGN_UNITS)


def _setup_values(found: xr.Dataset) -> list[list[str]]:
    """Return the values of the axes of each setup of a comparison, "epsilon = 0.1", of axes with several values."""
    rest = [str(each) for each in found["leader"].dims]
    return [
        [f"{name} = {value}" for name, value in zip(rest, values, strict=True) if found.sizes[name] > 1]
        for values in product(*(labels_as_typed(found, name) for name in rest))
    ]


def axis_to_compare(data: xr.Dataset, variable: str, roles: groups.PlotRoles) -> str | None:
    """Return the axis whose values can be compared, or None without one, or with too few seeds."""
    here = groups.select_point(data, roles.at, groups.axes_of(data, variable))
    axes, over = groups.axes_of(here, variable), _sample_axes(here, variable, roles)
    named = [roles.hue] if roles.hue in axes else [name for name in axes if data[name].dtype.kind in "OU"]
    found = next((name for name in named if name and here.sizes[name] > 1 and name not in over), None)
    n_units = int(np.prod([here.sizes[name] for name in over]))
    return found if over and n_units >= min_units(here[variable]) else None


def has_comparison(data: xr.Dataset, variable: str, roles: groups.PlotRoles) -> bool:
    """Test for a setup in which two axis values have runs with values."""
    axis, here = (
        axis_to_compare(data, variable, roles),
        groups.select_point(data, roles.at, groups.axes_of(data, variable)),
    )
    if axis is None:
        return False
    present = xr.apply_ufunc(np.isfinite, here[variable]).sum(_sample_axes(here, variable, roles))
    return bool(((present >= min_units(here[variable])).sum(axis) > 1).any())


def _sample_axes(data: xr.Dataset, variable: str, roles: groups.PlotRoles) -> tuple[str, ...]:
    """Return the axes whose points are the sample."""
    over = tuple(roles.over or (DRAWN,))
    return over if set(over) <= set(groups.axes_of(data, variable)) else ()
