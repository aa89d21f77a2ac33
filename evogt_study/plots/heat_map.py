"""Plot the median of a variable over two axes as colours, with the numbers if they fit into the cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from evogt_study.errors import InputError
from evogt_study.inference.kernels import Array
from evogt_study.plots.canvas import Plot, PlotRequest, new_panels, wrap_label
from evogt_study.plots.groups import GroupedRuns, PlotRoles, group_runs, is_numeric
from evogt_study.plots.style import COLUMN_WIDTH, label_size, min_log_ratio, scale_axis, tick_size, to_drawable

_MAX_VALUES = 40  # of an axis
MAX_WRITTEN = 7, 16  # cells in a row of a column and of a page up to which numbers are written into them


def draw_heat_map(data: xr.Dataset, variable: str, request: PlotRequest) -> Plot:
    """Draw medians over two axes as colours, with k/n in cells that lack runs.

    A cell without any value is hatched.  Raises InputError for fewer than two axes.
    """
    runs = _group_cells(data, variable, request.roles)
    medians, count = runs.medians, len(runs.col.values)
    canvas = new_panels(count, request, (COLUMN_WIDTH, 2.6))
    across = len(runs.x.values) * canvas.columns
    write = across <= MAX_WRITTEN[canvas.columns > 1] and len(runs.hue.values) <= 2 * MAX_WRITTEN[0]
    norm = _colour_norm(medians, min_log_ratio(runs.is_error))
    meshes = [axes.imshow(medians[number], cmap="cividis", norm=norm, aspect="auto", origin="lower")
              for number, axes in enumerate(canvas.axes)]  # fmt: skip
    canvas.label_panels(runs, runs.x.label)
    for number, axes in enumerate(canvas.axes):
        axes.grid(visible=False)
        _annotate_cells(axes, runs, number, norm, write=write)
        _label_values(axes, runs)
        if number % canvas.columns == 0:
            axes.set_ylabel(wrap_label(runs.hue.label, 30), fontsize=label_size())
    if not is_numeric(data, runs.hue.name):  # strings are read from the top, numbers grow upwards
        canvas.axes[0].invert_yaxis()
    if np.isfinite(medians).any():
        bar = canvas.figure.colorbar(meshes[0], ax=canvas.axes, aspect=40, location="top")
        label = f"median {runs.label}" if runs.over else runs.label
        bar.set_label(wrap_label(label, 38 if count == 1 else 80), fontsize=label_size())
        scale_axis(bar.ax, "x", medians, min_log_ratio(runs.is_error))
        if not isinstance(norm, LogNorm):  # close numbers have long labels
            bar.ax.xaxis.set_major_locator(MaxNLocator(nbins=3 if count == 1 else 6))
        bar.ax.tick_params(labelsize=tick_size(), which="both")
    empty = (runs.planned.any(axis=-1) & ~runs.present.any(axis=-1)).any()
    canvas.add_footnote(runs.footnote("hatched: no run has a value" if empty else ""))
    title = f"{variable} over {runs.x.name} and {runs.hue.name}"
    return canvas.finish(title, "Colour: median of the cell.", runs.describe_medians(), runs.describe_subject())


def _group_cells(data: xr.Dataset, variable: str, roles: PlotRoles) -> GroupedRuns:
    """Return the runs over two axes, by default the two with the most values."""
    runs = group_runs(data, variable, roles, max_x=_MAX_VALUES, max_hue=_MAX_VALUES)
    # numbers make the better scale, strings the better panels
    swap = runs.col.name and is_numeric(data, runs.col.name) and not is_numeric(data, runs.hue.name)
    if swap and roles.hue is None and roles.col is None:
        swapped = replace(roles, hue=runs.col.name, col=runs.hue.name)
        runs = group_runs(data, variable, swapped, max_x=_MAX_VALUES, max_hue=_MAX_VALUES)
    if not (runs.hue.name and runs.x.name):
        axes = runs.x.name or runs.hue.name or "none"
        raise InputError(f"a heat map must have two axes with several values besides the sample, got {axes}")
    return runs


def _colour_norm(medians: Array, min_ratio: float) -> Normalize:
    known = medians[np.isfinite(medians)]
    if not len(known):
        return Normalize(0.0, 1.0)
    low, high = float(known.min()), float(known.max())
    if low > 0.0 and high > min_ratio * low:  # as the colour bar is scaled
        return LogNorm(low, high)
    return Normalize(low, high if high > low else low + (abs(low) or 1.0))


def _annotate_cells(axes: Axes, runs: GroupedRuns, panel: int, norm: Normalize, *, write: bool) -> None:
    """Write the number of each cell and k/n if it lacks runs; hatch it if all of its runs lack a value."""
    medians = runs.medians[panel]
    for row, column in np.ndindex(medians.shape):
        value = medians[row, column]
        empty = bool(runs.planned[panel, row, column].any()) and not np.isfinite(value)
        if empty:
            corner = (column - 0.5, row - 0.5)
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="////", edgecolor="0.5", linewidth=0, gid="empty"))
        number = f"{value:.3g}".replace("e-0", "e-") if np.isfinite(value) else ""
        text = "\n".join(filter(None, [number, runs.format_missing(panel, row, column)]))
        if write and text:
            dark = np.isfinite(value) and float(norm(value)) < 0.5  # the lower half of cividis
            back = {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if empty else None
            colour = "white" if dark else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=tick_size(), color=colour, bbox=back)


def _label_values(axes: Axes, runs: GroupedRuns) -> None:
    """Label the values along both axes, as many as there is room for."""
    for role, room in ((runs.x, 9), (runs.hue, 12)):
        positions = range(0, len(role.values), -(-len(role.values) // room))
        labels = [to_drawable(role.values[i]) for i in positions]
        if role is runs.x:
            axes.set_xticks(positions, labels=labels, rotation=0 if sum(map(len, labels)) < 32 else 90)
        else:
            axes.set_yticks(positions, labels=labels)
