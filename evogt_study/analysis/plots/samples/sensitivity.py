"""Sensitivity as bars: first-order and total share of each sampled parameter, or elementary effects."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from evogt_study.analysis.distinct import KEYS
from evogt_study.analysis.plots.parts.arranged import MAX_PANELS, Places, at, axes_of, label_of, numbers_in
from evogt_study.analysis.plots.parts.canvas import Given, laid_out, legend, note, panels
from evogt_study.analysis.plots.parts.labels import labelled, symbol
from evogt_study.analysis.plots.parts.style import label_size, plain, style, tick_size
from evogt_study.analysis.sensitivity.estimators import PARAMETER
from evogt_study.analysis.sensitivity.sampled import sample_dimensions
from evogt_study.analysis.sensitivity.sensitivity import sensitivity as estimated
from evogt_study.analysis.tables.sensitivity_table import SEED_SHARE, largest_first
from evogt_study.analysis.units import DRAWN
from evogt_study.errors import InputError
from evogt_study.schema.values import canonical, text_label

MOST = 12
"""Parameters that have a bar, the largest: more are no picture."""


def sensitivity(data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None) -> Figure:
    """Bars of the shares of the parameters in the variance: total in light, first order in dark, intervals as lines.

    The seed's share, where it is in the sample, is the last bar.  Of Morris' trajectories bars are mean magnitudes of
    elementary effects.  A panel for each value of one axis that is left.  Raises InputError where there is no sample.
    """
    found, by, notes = indices(data, variable, places or Places())
    count = found.sizes[by] if by else 1
    rows = min(found.sizes[PARAMETER], MOST) + int(SEED_SHARE in found)
    canvas = panels(count, height=0.75 + 0.26 * rows, ax=ax)
    beyond = False
    for number, axes in enumerate(canvas.axes):
        one = found.isel({by: number}) if by else found
        beyond |= _bars(axes, one)
        axes.set_title(plain(_where(found, by, number)), fontsize=label_size())
        what = "share of the variance" if "total_order" in found else "elementary effect"
        axes.set_xlabel(
            labelled(label_of(data[variable]), 44 if count == 1 else 26, f"{what} of {{}}"), fontsize=label_size()
        )
        axes.yaxis.grid(visible=False)
    legend(canvas, *_entries(found), lines=False)
    heads = ["arrow heads: on beyond the axis"] if beyond else []
    note(canvas, "; ".join([_counted(found), *heads, *notes]))
    return laid_out(canvas)


def indices(data: xr.Dataset, variable: str, places: Places) -> tuple[xr.Dataset, str | None, list[str]]:
    """The sensitivity of a variable, largest first, over one axis at the most, and what is held fixed of the others."""
    numbers_in(data, variable)
    axes = axes_of(data, variable)
    here = at(data, places.at, axes)
    over = _over(here, variable, places)
    values = here[variable]
    left = [str(dim) for dim in values.dims if dim not in over and values.sizes[dim] > 1]
    by = next((name for name in (places.panel, places.by, *left) if name in left), None)
    fixed = {dim: -1 if dim not in axes else 0 for dim in left if dim != by}  # of times the last
    notes = [f"at {name} = {value}" for name, value in places.at.items()]
    notes += [f"at {dim} = {text_label(canonical(values[dim].values[place]))}" for dim, place in fixed.items()]
    if by is not None and values.sizes[by] > MAX_PANELS:
        chosen = np.unique(np.linspace(0, values.sizes[by] - 1, MAX_PANELS).round().astype(int))
        notes.append(f"{len(chosen)} of {values.sizes[by]:,} values of {by}")
        here = here.isel({by: chosen})
    here = here.isel(fixed)
    alone = [dim for dim, size in here[variable].sizes.items() if size == 1 and dim not in over]
    found = estimated(here[variable].squeeze(alone), over, planned=here.get(KEYS), missing="drop")
    return largest_first(found), by, notes


def _over(data: xr.Dataset, variable: str, places: Places) -> list[str]:
    if places.over is not None:
        return list(places.over)
    dims = sample_dimensions(data[variable])[:1]
    if not dims:
        raise InputError(
            f"`--over` must name the dimension of a sample; {variable} has {', '.join(axes_of(data, variable))}"
        )
    return [*dims, *([DRAWN] if DRAWN in data[variable].dims else [])]


def _where(found: xr.Dataset, by: str | None, number: int) -> str:
    return f"{by} = {text_label(canonical(found[by].values[number]))}" if by else ""


def _bars(axes: Axes, one: xr.Dataset) -> bool:
    """Draw the bars of a panel; whether an interval ends beyond it."""
    names = [str(name) for name in one[PARAMETER].values[:MOST]]
    wide, narrow = ("total_order", "first_order") if "total_order" in one else ("mu_star", "")
    for name, height, shade in ((wide, 0.72, 0.35), (narrow, 0.36, 1.0)):
        if name:
            _bar(axes, one[name].values[:MOST], one[f"{name}_ci"].values[:MOST], height, shade)
    if SEED_SHARE in one:
        _bar(axes, np.atleast_1d(one[SEED_SHARE].values), one[f"{SEED_SHARE}_ci"].values[None], 0.72, 0.35, len(names))
        names.append(DRAWN)
    axes.set_yticks(range(len(names)), labels=[symbol(name) for name in names], fontsize=tick_size())
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.axvline(0.0, color="0.35", linewidth=0.6)
    if "total_order" in one:
        estimates = np.nan_to_num(np.concatenate([one[wide].values[:MOST], one[narrow].values[:MOST]]))
        # by the estimates: long intervals would shrink the bars, and have arrow heads instead
        axes.set_xlim(min(0.0, float(estimates.min())) - 0.05, max(1.0, float(estimates.max())) + 0.05)
    return _heads(axes)


def _heads(axes: Axes) -> bool:
    """An arrow head where an interval goes on beyond the axis; whether there is one."""
    left, right = axes.get_xlim()
    segments = [line for each in axes.collections if isinstance(each, LineCollection) for line in each.get_segments()]
    known = [line for line in segments if line.shape == (2, 2) and np.isfinite(line).all()]  # none where all are NaN
    ends = [(left, line[0, 1], "<") for line in known if line[0, 0] < left]
    ends += [(right, line[1, 1], ">") for line in known if line[1, 0] > right]
    for end, height, mark in ends:
        axes.plot([end], [height], color="black", marker=mark, markersize=3.5, clip_on=False, gid="beyond")
    return bool(ends)


def _bar(axes: Axes, values: np.ndarray, limits: np.ndarray, height: float, shade: float, first: int = 0) -> None:
    places = np.arange(len(values)) + first
    colour = style(0 if first else 2).colour
    axes.barh(places, values, height, color=(colour, shade), gid="share")
    # apart from each other, since the bars of both orders have one middle
    axes.hlines(
        places + 0.12 * (1.0 if shade < 1.0 else -1.0), limits[:, 0], limits[:, 1], colors="black", linewidth=0.9
    )


def _entries(found: xr.Dataset) -> tuple[list[Patch], list[str]]:
    colour = style(2).colour
    if "total_order" not in found:
        return [Patch(color=(colour, 0.35))], ["mean magnitude $\\mu^*$"]
    return [Patch(color=(colour, 1.0)), Patch(color=(colour, 0.35))], ["first order $S_i$", "total $T_i$"]


def _counted(found: xr.Dataset) -> str:
    """On how many blocks, trajectories or points the numbers rest, the doubts, and the lines."""
    units = {"saltelli": "blocks", "morris": "trajectories", "polynomial_chaos": "points"}[found.attrs["method"]]
    counts = {f"{ok:,} of {planned:,} {units}" for ok, planned in
              zip(found["n_ok"].values.ravel(), found["n_planned"].values.ravel(), strict=True)}  # fmt: skip
    doubts = [note for note in dict.fromkeys(np.ravel(found["note"].values).tolist()) if note]
    return "; ".join([", ".join(sorted(counts)[:3]), "lines: 95 % intervals", *doubts[:1]])
