"""Plot the field of one run beside the exact field and their difference: curves, panels, or a slice of a box."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import ScalarFormatter

from evogt_study.errors import InputError, shortened
from evogt_study.inference.kernels import Array
from evogt_study.plots.canvas import Canvas, Plot, PlotRequest, new_canvas
from evogt_study.plots.groups import PlotRoles, axes_of, label_of, select_point
from evogt_study.plots.style import COLUMN_WIDTH, STYLES, TEXT_WIDTH, format_tick, label_size, scale_axis, tick_size
from evogt_study.schema.values import canonical, text_label
from evogt_study.schema.variables import Status, status_codes

FIELD, _EXACT = "field", "exact_field"
MAX_CELLS = 1000
"""Cells of a panel in a direction: its 2.9 inches have 870 dots at 300 to an inch, and each cell takes 200 bytes."""
_ROUNDING = 1e-14  # relative differences at or below which points agree, as at the boundary
DIRECTIONS = ("x", "y", "z")


def draw_fields(data: xr.Dataset, variable: str, request: PlotRequest) -> Plot:
    """Draw the field of one run, beside the exact field and the absolute error: curves, panels, or panels of a slice.

    `at` selects the run (default: the first that is ok), the nearest `time` (the last) and, in 3-D, a slice (`z=0.5`).
    Raises InputError if no field is recorded, or there is no such run.
    """
    run, where = _select_run(data, request.roles)
    numerical, exact = run[variable], run.get(_EXACT)
    if exact is not None:
        exact = exact.transpose(*numerical.dims)
    error = None if exact is None else np.abs(numerical.values - exact.values)
    draw = _draw_curves if numerical.ndim == 1 else _draw_panels
    canvas = draw(numerical.astype(float), exact, error, request)
    canvas.add_footnote(where)
    alt = f"The numerical solution at {where}."
    if error is not None:
        alt = f"Exact and numerical solution at {where}; they differ by at most {_max_finite(error):.2g}."
    return canvas.finish(f"{variable} of one run", "", alt)


def _select_run(data: xr.Dataset, roles: PlotRoles) -> tuple[xr.Dataset, str]:
    """Return the fields of one run at one time, over at most two directions, and a description of the selection."""
    if FIELD not in data:
        raise InputError(f"`{FIELD}` must be in the file to draw it; put it into `record` of the study's [output]")
    axes = axes_of(data, FIELD)
    unknown = [name for name in roles.at if name not in data[FIELD].dims]
    if unknown:
        known = ", ".join(map(str, data[FIELD].dims))
        raise InputError(f"`--at` must name dimensions of the field ({known}), got {shortened(unknown[0])}")
    inside = {name: value for name, value in roles.at.items() if name in ("time", *DIRECTIONS)}
    run = select_point(data, {name: value for name, value in roles.at.items() if name not in inside}, axes)
    if "run_status" in run:
        ok = np.argwhere(status_codes(run["run_status"]) == Status.ok)
        if not len(ok):
            raise InputError("`FILE` must have a run with status ok to draw its field, got none")
        run = run.isel(dict(zip(run["run_status"].dims, ok[0].tolist(), strict=True)))
    parts = [f"{name} = {text_label(canonical(run[name].values.item()))}" for name in axes]
    if "time" in run[FIELD].dims:
        inside = {"time": run["time"].values[-1], **inside}
    if set(DIRECTIONS) <= set(run[FIELD].dims) and not set(inside) & set(DIRECTIONS):
        inside["z"] = 0.5
    for name, value in inside.items():
        try:
            wanted = float(str(value))
        except ValueError:
            raise InputError(f"`{name}` must be a number, got {shortened(value)}") from None
        run = run.isel({name: int(np.argmin(np.abs(run[name].values - wanted)))})
        parts.append(f"{name} = {float(run[name]):.4g}")
    return run[[name for name in (FIELD, _EXACT) if name in run]], ", ".join(parts)


def _draw_curves(
    numerical: xr.DataArray, exact: xr.DataArray | None, error: Array | None, request: PlotRequest
) -> Canvas:
    """Draw numerical and exact solution over one direction, and below them the absolute error, logarithmic."""
    (dim,) = map(str, numerical.dims)
    x = np.asarray(numerical[dim].values, dtype=float)
    rows = 1 if error is None else 2
    size = (COLUMN_WIDTH, 1.3 + 1.25 * rows)
    canvas = new_canvas(rows, 1, size, request, sharex=True, height_ratios=[1.6, 1.0][:rows])
    drawn = canvas.axes
    if exact is not None and error is not None:
        drawn[0].plot(x, exact.values, color=STYLES[0][0], linewidth=2.2, alpha=0.35, label="exact")
        shown = np.where(error > _ROUNDING * _largest(numerical.values), error, np.nan)
        drawn[1].plot(x, shown, color=STYLES[1][0], linewidth=1.0)
        drawn[1].set_ylabel("absolute error", fontsize=label_size())
        scale_axis(drawn[1], "y", shown)
    drawn[0].plot(x, numerical.values, color=STYLES[1][0], linestyle="dashed", linewidth=1.1, label="numerical")
    drawn[0].set_ylabel("solution", fontsize=label_size())
    canvas.add_legend(*drawn[0].get_legend_handles_labels())
    for axes in drawn:
        axes.tick_params(labelsize=tick_size())
        axes.grid(color="0.9", linewidth=0.5)
        axes.margins(x=0.0)
    drawn[-1].set_xlabel(canvas.wrap(label_of(numerical[dim])), fontsize=label_size())
    return canvas


def _draw_panels(
    numerical: xr.DataArray, exact: xr.DataArray | None, error: Array | None, request: PlotRequest
) -> Canvas:
    """Draw exact field, numerical field and absolute error over two directions, the first two on one scale."""
    across, up = (name for name in DIRECTIONS if name in numerical.dims)
    upright = numerical.transpose(up, across)
    values = [numerical.values] if exact is None or error is None else [exact.values, numerical.values, error]
    values = [each if numerical.dims == upright.dims else each.T for each in values]
    titles = ["numerical"] if len(values) == 1 else ["exact", "numerical", "absolute error"]
    size = (COLUMN_WIDTH, 2.9) if len(values) == 1 else (TEXT_WIDTH, 2.4)
    canvas = new_canvas(1, len(values), size, request, sharex=True, sharey=True)
    limit = max(_largest(each) for each in values[:2])
    for number, (axes, title, each) in enumerate(zip(canvas.axes, titles, values, strict=True)):
        if number < 2:  # symmetric: zero is white
            mesh = _draw_panel(axes, upright, each, title, cmap="RdBu_r", vmin=-limit, vmax=limit)
        else:
            mesh = _draw_panel(axes, upright, each, title, cmap="viridis", vmin=0.0, vmax=_largest(each))
        if number > 0 or len(values) == 1:
            _add_colour_bar(axes, mesh)
    canvas.axes[0].set_ylabel(label_of(upright[up]), fontsize=label_size())
    return canvas


def _largest(field: Array) -> float:
    """Return the largest finite magnitude; one if all are zero, since a colour scale needs a width."""
    return _max_finite(field) or 1.0


def _max_finite(field: Array) -> float:
    return float(np.max(np.abs(field), where=np.isfinite(field), initial=0.0))


def _draw_panel(axes: Axes, points: xr.DataArray, values: Array, title: str, **colours: Any) -> Any:
    """Draw one panel of colours; the points may be spaced unevenly.  As an image also in SVG: else a path per cell."""
    up, across = map(str, points.dims)
    rows, columns = (slice(None, None, math.ceil(length / MAX_CELLS)) for length in values.shape)
    mesh = axes.pcolormesh(
        points[across].values[columns], points[up].values[rows], values[rows, columns],
        shading="nearest", rasterized=True, **colours,
    )  # fmt: skip
    axes.set_aspect("equal")
    axes.set_title(title, fontsize=label_size())
    axes.set_xlabel(label_of(points[across]), fontsize=label_size())
    axes.tick_params(labelsize=tick_size())
    ends = [(float(points[dim].min()), float(points[dim].max())) for dim in (across, up)]
    axes.set(xlim=ends[0], ylim=ends[1])
    for which, (low, high) in zip((axes.xaxis, axes.yaxis), ends, strict=True):
        which.set_ticks([low, (low + high) / 2, high], labels=[format_tick(x) for x in (low, (low + high) / 2, high)])
    return mesh


def _add_colour_bar(axes: Axes, mesh: Any) -> None:
    """Add a colour bar beside a panel, as tall as the panel, whatever room its equal aspect leaves."""
    number_format = ScalarFormatter(useMathText=True)
    number_format.set_powerlimits((-2, 3))
    beside = axes.inset_axes((1.05, 0.0, 0.06, 1.0))
    axes.figure.colorbar(mesh, cax=beside, format=number_format)
    beside.tick_params(labelsize=tick_size())
    beside.yaxis.get_offset_text().set_fontsize(tick_size())
    beside.yaxis.set_offset_position("left")
