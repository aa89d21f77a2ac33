"""Plot the field of one run beside the exact field and their difference: curves, panels, or a slice of a box."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from evogt_study.errors import InputError, shortened
from evogt_study.plots.canvas import Given, labelled, laid_out, legend, new_canvas, note
from evogt_study.plots.groups import Places, at, axes_of, label_of
from evogt_study.plots.style import COLUMN_WIDTH, STYLES, TEXT_WIDTH, label_size, scale_axis, tick_size
from evogt_study.schema.values import canonical, text_label
from evogt_study.schema.variables import Status, status_codes

FIELD, EXACT = "field", "exact_field"
MOST_CELLS = 1000
"""Cells of a panel in a direction: its 2.9 inches have 870 dots at 300 to an inch, and each cell takes 200 bytes."""
ROUNDING = 1e-14  # relative differences at or below which points agree, as at the boundary
DIRECTIONS = ("x", "y", "z")


def fields(data: xr.Dataset, places: Places | None = None, *, ax: Given = None) -> Figure:
    """The field of one run: curves in 1-D, panels in 2-D, panels of a slice in 3-D; with exact solution and error.

    `at` names the run by the study's axes (the first that is ok), and the nearest saved `time` (the last) and, in 3-D,
    the slice, `z=0.5` where left out.  Raises InputError where no field is recorded, or there is no such run.
    """
    run, where = one_run(data, places or Places())
    numerical = run[FIELD]
    exact = run.get(EXACT)
    if numerical.ndim == 1:
        return field_curves(numerical, exact, where, ax=ax)
    if exact is not None:
        return field_panels(exact, numerical, where, ax=ax)
    return _field_panel(numerical, where, ax)


def one_run(data: xr.Dataset, places: Places) -> tuple[xr.Dataset, str]:
    """One run's fields at one time, over at most two directions, and words that say which."""
    if FIELD not in data:
        raise InputError(f"`{FIELD}` must be in the file to draw it; put it into `record` of the study's [output]")
    axes = axes_of(data, FIELD)
    inside = {name: value for name, value in places.at.items() if name in ("time", *DIRECTIONS)}
    for name in places.at:
        if name not in data[FIELD].dims:
            known = ", ".join(map(str, data[FIELD].dims))
            raise InputError(f"`--at` must name dimensions of the field ({known}), got {shortened(name)}")
    run = at(data, {name: value for name, value in places.at.items() if name not in inside}, axes)
    if "run_status" in run:
        ok = np.argwhere(status_codes(run["run_status"]) == Status.ok)
        if not len(ok):
            raise InputError("`FILE` must have a run with status ok to draw its field, got none")
        run = run.isel(dict(zip(run["run_status"].dims, ok[0].tolist(), strict=True)))
    parts = [f"{name} = {text_label(canonical(run[name].values.item()))}" for name in axes]
    inside = {**({"time": run["time"].values[-1]} if "time" in run[FIELD].dims else {}), **inside}
    if len(set(run[FIELD].dims) & set(DIRECTIONS)) == 3 and not set(inside) & set(DIRECTIONS):
        inside["z"] = 0.5
    for name, value in inside.items():
        run, place = _nearest(run, name, value)
        parts.append(f"{name} = {place:.4g}")
    return run[[name for name in (FIELD, EXACT) if name in run]], ", ".join(parts)


def _nearest(run: xr.Dataset, name: str, value: object) -> tuple[xr.Dataset, float]:
    """The run at the point of a dimension nearest to `value`."""
    try:
        wanted = float(str(value))
    except ValueError:
        raise InputError(f"`{name}` must be a number, got {shortened(value)}") from None
    points = run[name].values
    number = int(np.argmin(np.abs(points - wanted)))
    return run.isel({name: number}), float(points[number])


def field_curves(
    numerical: xr.DataArray, exact: xr.DataArray | None = None, caption: str = "", *, ax: Given = None
) -> Figure:
    """Numerical and exact solution over one direction, and below them the absolute error, logarithmic.

    Raises InputError where the fields are not both over one direction, at the same points.
    """
    if numerical.ndim != 1 or not numerical.size:
        raise InputError(f"the numerical field must have points over one direction, got {dict(numerical.sizes)}")
    (dim,) = map(str, numerical.dims)
    x, values = np.asarray(numerical[dim].values, dtype=float), np.asarray(numerical.values, dtype=float)
    rows = 1 if exact is None else 2
    canvas = new_canvas(rows, 1, (COLUMN_WIDTH, 1.3 + 1.25 * rows), ax, sharex=True, height_ratios=[1.6, 1.0][:rows])
    drawn = canvas.axes
    if exact is not None:
        if exact.dims != numerical.dims:
            raise InputError(f"the exact field must have points over {dim}, got {dict(exact.sizes)}")
        _check_same_points(exact, numerical)
        drawn[0].plot(x, exact.values, color=STYLES[0][0], linewidth=2.2, alpha=0.35, label="exact")
        error = np.abs(values - np.asarray(exact.values, dtype=float))
        shown = np.where(error > ROUNDING * _largest([values]), error, np.nan)
        drawn[1].plot(x, shown, color=STYLES[1][0], linewidth=1.0)
        drawn[1].set_ylabel("absolute error", fontsize=label_size())
        scale_axis(drawn[1], "y", shown)
    drawn[0].plot(x, values, color=STYLES[1][0], linestyle="dashed", linewidth=1.1, label="numerical")
    drawn[0].set_ylabel("solution", fontsize=label_size())
    legend(canvas, *drawn[0].get_legend_handles_labels())
    for axes in drawn:
        axes.tick_params(labelsize=tick_size())
        axes.grid(color="0.9", linewidth=0.5)
        axes.margins(x=0.0)
    drawn[-1].set_xlabel(labelled(label_of(numerical[dim]), 48), fontsize=label_size())
    if caption:
        note(canvas, caption)
    return laid_out(canvas)


def field_panels(exact: xr.DataArray, numerical: xr.DataArray, caption: str = "", *, ax: Given = None) -> Figure:
    """Exact field, numerical field and absolute error over two directions, the first two on one scale.

    Raises InputError where the fields are not both over the same two of x, y and z, at the same points.
    """
    dims = _two_directions(exact)
    upright = [_upright(exact, "exact", dims), _upright(numerical, "numerical", dims)]
    _check_same_points(*upright)
    fields = [np.asarray(field.values, dtype=float) for field in upright]
    error = np.abs(fields[1] - fields[0])
    limit, largest = _largest([*fields]), _largest([error])
    canvas = new_canvas(1, 3, (TEXT_WIDTH, 2.4 if caption else 2.25), ax, sharex=True, sharey=True)
    axes = canvas.axes
    colours = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}  # symmetric: zero is white
    _panel(axes[0], upright[0], fields[0], "exact", **colours)
    shared = _panel(axes[1], upright[0], fields[1], "numerical", **colours)
    own = _panel(axes[2], upright[0], error, "absolute error", cmap="viridis", vmin=0.0, vmax=largest)
    axes[0].set_ylabel(_name(upright[0], dims[1]), fontsize=label_size())
    _colour_bar(axes[1], shared)
    _colour_bar(axes[2], own)
    if caption:
        note(canvas, caption)
    return laid_out(canvas)


def _field_panel(numerical: xr.DataArray, caption: str, ax: Given) -> Figure:
    """Draw a numerical field without an exact one."""
    dims = _two_directions(numerical)
    upright = _upright(numerical, "numerical", dims)
    limit = _largest([np.asarray(upright.values, dtype=float)])
    canvas = new_canvas(1, 1, (COLUMN_WIDTH, 2.9), ax)
    (axes,) = canvas.axes
    colours = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    mesh = _panel(axes, upright, np.asarray(upright.values, dtype=float), "numerical", **colours)
    axes.set_ylabel(_name(upright, dims[1]), fontsize=label_size())
    _colour_bar(axes, mesh)
    note(canvas, caption)
    return laid_out(canvas)


def _two_directions(field: xr.DataArray) -> tuple[str, str]:
    """The two directions of a field, x and y where it has others."""
    own = [name for name in DIRECTIONS if name in field.dims]
    return (own[0], own[1]) if len(own) == 2 and field.ndim == 2 else ("x", "y")


def _upright(field: xr.DataArray, role: str, dims: tuple[str, str]) -> xr.DataArray:
    """Return the field with the second direction along the rows and the first, horizontal one along the columns."""
    if set(field.dims) != set(dims) or not field.size:
        raise InputError(
            f"the {role} field must have points over dimensions {' and '.join(dims)}, got {dict(field.sizes)}"
        )
    return field.transpose(*reversed(dims))


def _check_same_points(exact: xr.DataArray, numerical: xr.DataArray) -> None:
    """Fields at other points have no difference; xarray would silently keep the points in common."""
    for dim in sorted(map(str, exact.dims)):
        one, other = exact[dim].values, numerical[dim].values
        if one.shape != other.shape or not np.allclose(one, other, rtol=0.0, atol=1e-12):
            raise InputError(f"the exact and the numerical field must be at the same points, they differ in {dim}")


def _largest(fields: list[npt.NDArray[np.float64]]) -> float:
    """Largest finite magnitude; one where there is none, since a colour scale needs a width."""
    return max(float(np.max(np.abs(field), where=np.isfinite(field), initial=0.0)) for field in fields) or 1.0


def _panel(axes: Axes, points: xr.DataArray, values: npt.NDArray[np.float64], title: str, **colours: Any) -> Any:
    """One coloured panel; the points may be spaced unevenly.  As an image also in SVG: else a path for each cell."""
    up, across = map(str, points.dims)
    rows, columns = (slice(None, None, math.ceil(length / MOST_CELLS)) for length in values.shape)
    mesh = axes.pcolormesh(
        points[across].values[columns], points[up].values[rows], values[rows, columns],
        shading="nearest", rasterized=True, **colours,
    )  # fmt: skip
    axes.set_aspect("equal")
    axes.set_title(title, fontsize=label_size())
    axes.set_xlabel(_name(points, across), fontsize=label_size())
    axes.tick_params(labelsize=tick_size())
    ends = [(float(points[dim].min()), float(points[dim].max())) for dim in (across, up)]
    axes.set(xlim=ends[0], ylim=ends[1])
    for along, (low, high) in zip((axes.xaxis, axes.yaxis), ends, strict=True):
        places = [low, (low + high) / 2, high]
        along.set_ticks(places, labels=[f"{place:.4g}".replace("-", "\N{MINUS SIGN}") for place in places])
    return mesh


def _colour_bar(axes: Axes, mesh: Any) -> None:
    """A colour bar beside a panel, as tall as the panel, whatever room its equal aspect leaves."""
    number_format = ScalarFormatter(useMathText=True)
    number_format.set_powerlimits((-2, 3))
    beside = axes.inset_axes((1.05, 0.0, 0.06, 1.0))
    axes.figure.colorbar(mesh, cax=beside, format=number_format)
    beside.tick_params(labelsize=tick_size())
    beside.yaxis.get_offset_text().set_fontsize(tick_size())
    beside.yaxis.set_offset_position("left")


def _name(field: xr.DataArray, dim: str) -> str:
    return labelled(label_of(field[dim]), 48)
