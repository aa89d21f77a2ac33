"""Plot a variable along a dimension of its own, such as time, and the decay of singular values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from evogt_study.analysis.export import on_grid
from evogt_study.errors import InputError
from evogt_study.inference.kernels import Array
from evogt_study.plots.canvas import Canvas, Plot, PlotRequest, new_panels
from evogt_study.plots.groups import (
    MAX_LISTED,
    GroupedRuns,
    PlotRoles,
    axes_of,
    group_runs,
    label_of,
    numeric_array,
    own_dimensions,
    select_point,
    title_of,
)
from evogt_study.plots.style import QUIET, Style, label_size, series_style

MAX_WHOLE_BAND = 20  # runs whose band shows all of them; with more, it goes from 5 % to 95 %
GRID_POINTS = 200  # of a grid for runs that have points of their own
MIN_UNMARKED = 15  # places from which on lines have no markers
SINGULAR_VALUES = "singular_values"
MAX_CUTS = 4


def draw_time_series(data: xr.Dataset, variable: str, request: PlotRequest) -> Plot:
    """Draw a variable over its own dimension: the median of each series, within a band of its runs.

    The bands are of all runs if no series has more than `MAX_WHOLE_BAND`, else from 5 % to 95 %, at each place by
    itself.  Raises InputError for a variable without one dimension of its own.
    """
    data, dim = _use_own_coordinate(data, variable, _own_dimension(data, variable))
    runs = group_runs(data, variable, request.roles, wanted=("hue", "col"), own=True)
    x = np.asarray(data[dim].values, dtype=float)
    canvas = new_panels(len(runs.col.values), request)
    canvas.label_panels(runs, label_of(data[dim]))
    _draw_bundles(canvas, runs, x, runs.values)
    for axes in canvas.axes:
        axes.margins(x=0.0 if len(x) >= MIN_UNMARKED else 0.03)
        if (x == np.round(x)).all():
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    canvas.scale_values(runs.values, runs.is_error)
    canvas.add_series_legend(runs, markers=False)
    canvas.add_footnote(runs.footnote(runs.list_incomplete(MAX_LISTED), _explain_band(runs)))
    last = replace(runs, values=runs.values[..., -1]).medians
    what = f"At the end of {title_of(data[dim])}, {'medians' if runs.over else 'values'} of"
    marks = "Line: median.  Band: minimum to maximum, or 5 % to 95 % quantiles if there are many runs."
    return canvas.finish(variable, marks, runs.describe_extremes(last, what), runs.describe_subject())


def _use_own_coordinate(data: xr.Dataset, variable: str, dim: str) -> tuple[xr.Dataset, str]:
    """Return the data with the variable over the coordinate that each run has of its own along `dim`, if there is one.

    A coordinate `t` has the index `t_index`.  Of several coordinates the first counts.
    """
    values = data[variable]
    known = [str(name) for name, each in values.coords.items()
             if each.ndim > 1 and each.dims[-1] == dim and each.dtype.kind in "iuf"]  # fmt: skip
    if not known:
        return data, dim
    along = min(known, key=lambda name: dim != f"{name}_index")
    own = values[along].values
    grid = np.linspace(np.nanmin(own), np.nanmax(own), GRID_POINTS) if np.isfinite(own).any() else np.zeros(1)
    return data.drop_vars(along).assign({variable: on_grid(values, along, grid)}), along


def _draw_bundles(canvas: Canvas, runs: GroupedRuns, x: Array, values: Array) -> None:
    """Draw median and band of each series at each x; runs without any value are left out."""
    levels = (0.0, 0.5, 1.0) if runs.largest <= MAX_WHOLE_BAND else (0.05, 0.5, 0.95)
    for number, one in np.ndindex(values.shape[:2]):
        lines = values[number, one, 0]
        lines = lines[np.isfinite(lines).any(axis=-1)]
        if len(lines):
            _draw_bundle(canvas.axes[number], x, lines, series_style(one), levels)


def _draw_bundle(axes: Axes, x: Array, lines: Array, mark: Style, levels: Sequence[float]) -> None:
    there = np.isfinite(lines).any(axis=0)
    low, middle, high = np.nanquantile(lines[:, there], levels, axis=0)
    if len(lines) > 1:
        axes.fill_between(x[there], low, high, color=mark.colour, alpha=0.18, linewidth=0, gid="band")
    few: dict[str, Any] = {"marker": mark.marker, "markersize": 3.0} if there.sum() < MIN_UNMARKED else {}
    axes.plot(x[there], middle, color=mark.colour, linestyle=mark.dashes, linewidth=1.3, gid="median", **few)


def _explain_band(runs: GroupedRuns) -> str:
    if runs.largest <= 1:
        return ""
    part = "all" if runs.largest <= MAX_WHOLE_BAND else "5 to 95 % of"
    return f"line: median; band: {part} runs over {', '.join(runs.over)}"


def _own_dimension(data: xr.Dataset, variable: str) -> str:
    """Return the one dimension that a variable has besides the study's axes.  Raises InputError."""
    numeric_array(data, variable)
    own = own_dimensions(data, variable)
    if len(own) != 1:
        have = ", ".join(name for name in map(str, data.data_vars) if is_time_series(data, name)) or "none"
        raise InputError(
            f"`--variable` must have one dimension besides the axes, as time ({have}), got {variable} over "
            f"{', '.join(own) or 'the axes alone'}"
        )
    return own[0]


# a mode, node or feature is not a quantity; singular values have `spectrum`
def is_time_series(data: xr.Dataset, variable: str) -> bool:
    """Test for a variable that is drawn well as a line over its one own dimension."""
    own = own_dimensions(data, variable)
    if len(own) != 1 or data[variable].dtype.kind not in "iuf" or own[0] in ("mode", "node", "feature"):
        return False
    return data.sizes[own[0]] > 1 and (own[0] not in data.coords or data[own[0]].dtype.kind in "iuf")


def draw_spectrum(data: xr.Dataset, variable: str, request: PlotRequest) -> Plot:
    """Draw the decay of singular values, with a line at the square root of each threshold `tau`.

    An axis tau has no curves of its own: its runs have the same singular values, so the first with a value is drawn.
    `at` may select one tau, whose cut is then the only one.  Raises InputError if they were not recorded.
    """
    if variable not in data:
        raise InputError(f"`{variable}` must be in the file to draw it; put it into `record` of the study's [output]")
    here, roles, cuts = _select_decompositions(data, request.roles)
    runs = group_runs(here, variable, roles, wanted=("hue", "col"), own=True)
    with np.errstate(invalid="ignore"):
        relative = runs.values / runs.values[..., :1]
    relative[~(relative > 0.0)] = np.nan
    canvas = new_panels(len(runs.col.values), request)
    canvas.label_panels(runs, "index $i$")
    canvas.axes[0].set_ylabel(r"singular value $\sigma_i / \sigma_1$", fontsize=label_size())
    _draw_bundles(canvas, runs, np.arange(1, relative.shape[-1] + 1, dtype=float), relative)
    lines = []
    for axes in canvas.axes:
        lines = [
            axes.axhline(np.sqrt(tau), color=QUIET, linewidth=0.9, linestyle=(0, (1, 1 + 2 * i)), gid="cut",
                         label=rf"$\sqrt{{\tau}}$, $\tau$ = {tau:g}".replace("e-", "e−"))
            for i, tau in enumerate(cuts)
        ]  # fmt: skip
        axes.margins(x=0.01)
    if np.isfinite(relative).any():
        canvas.axes[0].set_yscale("log")
    canvas.add_series_legend(runs, *lines, markers=False)
    canvas.add_footnote(runs.footnote(_explain_band(runs)))
    alt = "No run has a value."
    if np.isfinite(relative).any():
        least = float(np.nanmin(relative))
        alt = f"Curves that fall from 1 over {relative.shape[-1]} singular values, to {least:.1g} at the least."
    marks = "Decay of the singular values of the trial matrix.  Values below a threshold are cut."
    return canvas.finish(variable, marks, alt, runs.describe_subject())


def _select_decompositions(data: xr.Dataset, roles: PlotRoles) -> tuple[xr.Dataset, PlotRoles, list[float]]:
    """Return data and roles without the axis tau, and the thresholds to draw."""
    if "tau" not in data[SINGULAR_VALUES].dims:
        return data, roles, _choose_cuts(data)
    for option, named in (("hue", [roles.hue]), ("col", [roles.col]), ("over", roles.over or ())):
        if "tau" in named:
            raise InputError(f"`--{option}` must not be tau, which cuts singular values and does not change them")
    if "tau" in roles.at:
        data = select_point(data, {"tau": roles.at["tau"]}, axes_of(data, SINGULAR_VALUES))
        others = {name: value for name, value in roles.at.items() if name != "tau"}
        return data, replace(roles, at=others), _choose_cuts(data)
    known = data[SINGULAR_VALUES].notnull().any(own_dimensions(data, SINGULAR_VALUES))
    names = [name for name in (SINGULAR_VALUES, "run_status", "run_key") if name in data]
    return data[names].isel(tau=known.argmax("tau")).drop_vars("tau"), roles, _choose_cuts(data)


def _choose_cuts(data: xr.Dataset) -> list[float]:
    """Return the thresholds of the study, at most four of them, the extremes among these."""
    if "tau" not in data.coords or data["tau"].dtype.kind != "f":
        return []
    values = np.unique(data["tau"].values[np.isfinite(data["tau"].values)])
    chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), MAX_CUTS)).round().astype(int))
    return [float(values[i]) for i in chosen]
