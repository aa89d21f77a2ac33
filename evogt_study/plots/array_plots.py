"""Plot time series, the decay of singular values, and the fields of one run."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from evogt_study.analysis.export import on_grid
from evogt_study.analysis.runs import select_point
from evogt_study.errors import InputError, shorten
from evogt_study.inference.kernels import Array
from evogt_study.plots import groups, style
from evogt_study.plots.canvas import Canvas, PlottedFigure, make_canvas, make_panels
from evogt_study.plots.groups import PlotRequest
from evogt_study.schema.values import to_canonical, to_string
from evogt_study.schema.variables import RUN_METADATA, Status, to_status

MAX_RUNS_OF_FULL_BAND = 20  # a band of more runs shows the 5 % to 95 % quantiles
GRID_POINTS = 200  # points of the common grid of runs with different points
MIN_UNMARKED_POINTS = 15  # lines with fewer points have markers
SINGULAR_VALUES = "singular_values"
MAX_THRESHOLDS = 4
FIELD, _EXACT = "field", "exact_field"
MAX_CELLS = 1000  # cells of a panel in one direction (a panel of 2.9 inches has 870 dots at 300 dots per inch)
_MAX_RELATIVE_ROUNDING = 1e-14  # largest relative difference of equal points, as at the boundary
DIRECTIONS = ("x", "y", "z")


def draw_time_series(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw the median and a band of the runs of each series over the own dimension of a variable, such as time."""
    data, dim = _find_abscissa(data, variable)
    runs = groups.group_runs(data, variable, request, wanted=("hue", "col"), own=True)
    x = np.asarray(data[dim].values, dtype=float)
    canvas = make_panels(len(runs.col.values), request)
    canvas.label_panels(runs, groups.make_label(data[dim]))
    _draw_medians_and_bands(canvas, runs, x, runs.values)
    for axes in canvas.axes:
        axes.margins(x=0.0 if len(x) >= MIN_UNMARKED_POINTS else 0.03)
        if (x == np.round(x)).all():
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    canvas.scale_values(runs.values, runs.is_error)
    canvas.add_series_legend(runs, markers=False)
    canvas.add_footnote(runs.make_footnote(runs.list_incomplete(groups.MAX_LISTED), _explain_band(runs)))
    last = replace(runs, values=runs.values[..., -1]).medians
    what = f"At the end of {groups.make_title(data[dim])}, {'medians' if runs.over else 'values'} of"
    marks = "Line: median.  Band: minimum to maximum, or 5 % to 95 % quantiles if there are many runs."
    return canvas.finish(variable, marks, runs.describe_extremes(last, what), runs.describe_subject())


def _find_abscissa(data: xr.Dataset, variable: str) -> tuple[xr.Dataset, str]:
    """Return the data and the own dimension of a variable.  Interpolate runs with different points to a common grid."""
    values, own = groups.get_numeric_array(data, variable), groups.find_own_dimensions(data, variable)
    if len(own) != 1:
        known, got = (name for name in map(str, data.data_vars) if is_time_series(data, name)), ", ".join(own)
        message = f"`variable` must have one dimension besides the axes, such as time ({', '.join(known) or 'none'})"
        raise InputError(f"{message}, got {variable} over {got or 'the axes only'}")
    varying = [str(name) for name, each in values.coords.items()
               if each.ndim > 1 and each.dims[-1] == own[0] and each.dtype.kind in "iuf"]  # fmt: skip
    if not varying:
        return data, own[0]
    along = min(varying, key=lambda name: own[0] != f"{name}_index")
    places = values[along].values
    grid = np.linspace(np.nanmin(places), np.nanmax(places), GRID_POINTS) if np.isfinite(places).any() else np.zeros(1)
    return data.drop_vars(along).assign({variable: on_grid(values, along, grid)}), along


def _draw_medians_and_bands(canvas: Canvas, runs: groups.GroupedRuns, x: Array, values: Array) -> None:
    """Draw the median and the band of each series at each x."""
    levels = (0.0, 0.5, 1.0) if runs.largest <= MAX_RUNS_OF_FULL_BAND else (0.05, 0.5, 0.95)
    for panel, one in np.ndindex(values.shape[:2]):
        lines, axes, mark = values[panel, one, 0], canvas.axes[panel], style.choose_series_style(one)
        there = np.isfinite(lines).any(axis=0)
        count = int(np.isfinite(lines).any(axis=1).sum())
        if not count:
            continue
        low, middle, high = np.nanquantile(lines[:, there], levels, axis=0)
        if count > 1:
            axes.fill_between(x[there], low, high, color=mark.colour, alpha=0.18, linewidth=0, gid="band")
        few: dict[str, Any] = {"marker": mark.marker, "markersize": 3.0} if there.sum() < MIN_UNMARKED_POINTS else {}
        axes.plot(x[there], middle, color=mark.colour, linestyle=mark.dashes, linewidth=1.3, gid="median", **few)


def _explain_band(runs: groups.GroupedRuns) -> str:
    if runs.largest <= 1:
        return ""
    part = "all" if runs.largest <= MAX_RUNS_OF_FULL_BAND else "5 to 95 % of"
    return f"line: median; band: {part} runs over {', '.join(runs.over)}"


def is_time_series(data: xr.Dataset, variable: str, request: PlotRequest | None = None) -> bool:
    """Return True if a variable has finite values along exactly one numeric dimension besides the axes."""
    own = groups.find_own_dimensions(data, variable)
    if len(own) != 1 or data[variable].dtype.kind not in "iuf" or variable in RUN_METADATA:
        return False
    # modes, nodes and features are not quantities, and the plot `spectrum` draws singular values
    along = own[0] not in ("mode", "node", "feature") and data.sizes[own[0]] > 1
    numeric = own[0] not in data.coords or data[own[0]].dtype.kind in "iuf"
    return along and numeric and bool(np.isfinite(data[variable].values).any())


def draw_spectrum(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw the decay of singular values, with lines at the square roots of at most four thresholds `tau`."""
    if variable not in data:
        raise InputError(f"`{variable}` is not in the file. Put it into `record` of the study's [output].")
    if "tau" in data[variable].dims and "tau" in request.at:
        data = select_point(data, {"tau": request.at["tau"]}, ["tau"])
        request = replace(request, at={name: each for name, each in request.at.items() if name != "tau"})
    tau = np.unique(data["tau"].values) if "tau" in data.coords and data["tau"].dtype.kind == "f" else np.empty(0)
    tau = tau[np.isfinite(tau)]
    cuts = tau[np.unique(np.linspace(0, len(tau) - 1, min(len(tau), MAX_THRESHOLDS)).round().astype(int))]
    if "tau" in data[variable].dims:  # runs along tau have equal singular values, so use the first run with a value
        known = data[variable].notnull().any(groups.find_own_dimensions(data, variable))
        names = [name for name in (variable, "run_status", "run_key") if name in data]
        data = data[names].isel(tau=known.argmax("tau")).drop_vars("tau")
    runs = groups.group_runs(data, variable, request, wanted=("hue", "col"), own=True)
    with np.errstate(invalid="ignore"):
        relative = runs.values / runs.values[..., :1]
    relative[~(relative > 0.0)] = np.nan
    canvas = make_panels(len(runs.col.values), request)
    canvas.label_panels(runs, "index $i$")
    canvas.axes[0].set_ylabel(r"singular value $\sigma_i / \sigma_1$")
    _draw_medians_and_bands(canvas, runs, np.arange(1, relative.shape[-1] + 1, dtype=float), relative)
    lines = []
    for axes in canvas.axes:
        lines = [
            axes.axhline(np.sqrt(tau), color=style.NOTE_COLOUR, linewidth=0.9, linestyle=(0, (1, 1 + 2 * i)), gid="cut",
                         label=rf"$\sqrt{{\tau}}$, $\tau$ = {tau:g}".replace("e-", "e−"))
            for i, tau in enumerate(cuts)
        ]  # fmt: skip
        axes.margins(x=0.01)
    alt = "No run has a value."
    if np.isfinite(relative).any():
        canvas.axes[0].set_yscale("log")
        least = float(np.nanmin(relative))
        alt = f"Curves that fall from 1 over {relative.shape[-1]} singular values, to {least:.1g} at the least."
    canvas.add_series_legend(runs, *lines, markers=False)
    canvas.add_footnote(runs.make_footnote(_explain_band(runs)))
    marks = "Decay of the singular values of the trial matrix.  Values below a threshold are cut."
    return canvas.finish(variable, marks, alt, runs.describe_subject())


def draw_fields(data: xr.Dataset, variable: str, request: PlotRequest) -> PlottedFigure:
    """Draw the field of one run at one time, the exact field and the absolute error.  In 3-D, draw a slice."""
    run, where = _select_run(data, request)
    numerical, alt = run[variable].astype(float), f"The numerical solution at {where}."
    fields = {"numerical": numerical}
    if _EXACT in run:
        exact = run[_EXACT].transpose(*numerical.dims)
        error = numerical.copy(data=np.abs(numerical.values - exact.values))
        fields, largest = {"exact": exact, **fields, "absolute error": error}, _find_largest_magnitude(error.values)
        alt = f"Exact and numerical solution at {where}. The largest difference is {largest:.2g}."
    canvas = _draw_curves(fields, request) if numerical.ndim == 1 else _draw_panels(fields, request)
    canvas.add_footnote(where)
    return canvas.finish(f"{variable} of one run", "", alt)


def _select_run(data: xr.Dataset, request: PlotRequest) -> tuple[xr.Dataset, str]:
    """Return the fields of one run at one time over at most two directions, and a text of the selected values."""
    if FIELD not in data:
        raise InputError(f"`{FIELD}` is not in the file. Put it into `record` of the study's [output].")
    axes = groups.find_axes(data, FIELD)
    unknown = [name for name in request.at if name not in data[FIELD].dims]
    if unknown:
        known = ", ".join(map(str, data[FIELD].dims))
        raise InputError(f"`at` must name dimensions of the field ({known}), got {shorten(unknown[0])}")
    inside = {name: value for name, value in request.at.items() if name in ("time", *DIRECTIONS)}
    run = select_point(data, {name: value for name, value in request.at.items() if name not in inside}, axes)
    if "run_status" in run:
        ok = np.argwhere(to_status(run["run_status"]) == Status.ok)
        if not len(ok):
            raise InputError("`FILE` must have a run with status ok to draw its field, got none")
        run = run.isel(dict(zip(run["run_status"].dims, ok[0].tolist(), strict=True)))
    parts = [f"{name} = {to_string(to_canonical(run[name].values.item()))}" for name in axes]
    if "time" in run[FIELD].dims:
        inside = {"time": run["time"].values[-1], **inside}
    if set(DIRECTIONS) <= set(run[FIELD].dims) and not set(inside) & set(DIRECTIONS):
        inside["z"] = 0.5
    for name, value in inside.items():
        try:
            run = run.isel({name: int(np.argmin(np.abs(run[name].values - float(str(value)))))})
        except ValueError:
            raise InputError(f"`{name}` must be a number, got {shorten(value)}") from None
        parts.append(f"{name} = {float(run[name]):.4g}")
    return run[[name for name in (FIELD, _EXACT) if name in run]], ", ".join(parts)


def _draw_curves(fields: Mapping[str, xr.DataArray], request: PlotRequest) -> Canvas:
    """Draw the numerical and exact solution over one direction, and the absolute error in a lower panel."""
    numerical, rows = fields["numerical"], min(len(fields), 2)
    (dim,) = map(str, numerical.dims)
    x, size = np.asarray(numerical[dim].values, dtype=float), (style.COLUMN_INCHES, 1.3 + 1.25 * rows)
    canvas = make_canvas(rows, 1, size, request, sharex=True, height_ratios=[1.6, 1.0][:rows])
    drawn = canvas.axes
    if "exact" in fields:
        drawn[0].plot(x, fields["exact"].values, color=style.STYLES[0][0], linewidth=2.2, alpha=0.35, label="exact")
        error, scale = fields["absolute error"].values, _find_largest_magnitude(numerical.values) or 1.0
        shown = np.where(error > _MAX_RELATIVE_ROUNDING * scale, error, np.nan)
        drawn[1].plot(x, shown, color=style.STYLES[1][0], linewidth=1.0)
        drawn[1].set_ylabel("absolute error")
        style.scale_axis(drawn[1], "y", shown)
    drawn[0].plot(x, numerical.values, color=style.STYLES[1][0], linestyle="dashed", linewidth=1.1, label="numerical")
    drawn[0].set_ylabel("solution")
    canvas.add_legend(*drawn[0].get_legend_handles_labels())
    for axes in drawn:
        axes.margins(x=0.0)
    drawn[-1].set_xlabel(canvas.wrap(groups.make_label(numerical[dim])))
    return canvas


def _draw_panels(fields: Mapping[str, xr.DataArray], request: PlotRequest) -> Canvas:
    """Draw exact field, numerical field and absolute error over two directions, with one scale for both fields."""
    numerical, exact = fields["numerical"], fields.get("exact", fields["numerical"])
    across, up = (name for name in DIRECTIONS if name in numerical.dims)
    size = (style.COLUMN_INCHES, 2.9) if len(fields) == 1 else (style.PAGE_INCHES, 2.4)
    canvas = make_canvas(1, len(fields), size, request, sharex=True, sharey=True)
    limit = max(_find_largest_magnitude(each.values) for each in (numerical, exact)) or 1.0
    ends = [(float(numerical[dim].min()), float(numerical[dim].max())) for dim in (across, up)]
    for axes, (title, whole) in zip(canvas.axes, fields.items(), strict=True):
        colours: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}  # symmetric: zero is white
        if title == "absolute error":
            colours = {"cmap": "viridis", "vmin": 0.0, "vmax": _find_largest_magnitude(whole.values) or 1.0}
        field = whole.transpose(up, across)
        field = field[tuple(slice(None, None, math.ceil(length / MAX_CELLS)) for length in field.shape)]
        grid = field[across].values, field[up].values, field.values
        mesh = axes.pcolormesh(*grid, shading="nearest", rasterized=True, **colours)
        axes.set_aspect("equal")
        axes.set_title(title)
        axes.set_xlabel(groups.make_label(numerical[across]))
        axes.grid(visible=False)
        axes.set(xlim=ends[0], ylim=ends[1])
        for which, (low, high) in zip((axes.xaxis, axes.yaxis), ends, strict=True):
            ticks = [low, (low + high) / 2, high]
            which.set_ticks(ticks, labels=[style.format_tick(x) for x in ticks])
        if title != "exact":
            # a colour bar as tall as the panel for any aspect
            beside = axes.inset_axes((1.05, 0.0, 0.06, 1.0))
            number_format = ScalarFormatter(useMathText=True)
            number_format.set_powerlimits((-2, 3))
            canvas.figure.colorbar(mesh, cax=beside, format=number_format)
            beside.yaxis.set_offset_position("left")
    canvas.axes[0].set_ylabel(groups.make_label(numerical[up]))
    return canvas


def _find_largest_magnitude(field: Array) -> float:
    """Return the largest finite magnitude in a field, or zero."""
    return float(np.max(np.abs(field), where=np.isfinite(field), initial=0.0))
