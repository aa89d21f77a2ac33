"""Precision of a number against the number of seeds: half the width of its interval, in parts of the number."""

from __future__ import annotations

import tomllib
from itertools import product

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from evogt_study.analysis.plots.histories import incomplete_told
from evogt_study.analysis.plots.parts.arranged import Places
from evogt_study.analysis.plots.parts.canvas import Given, laid_out, note, panels
from evogt_study.analysis.plots.parts.legends import line_legend
from evogt_study.analysis.plots.parts.style import QUIET, logarithmic, style, wrapped
from evogt_study.analysis.plots.settling import growing, named_panels
from evogt_study.inference.intervals import FEWEST
from evogt_study.inference.kernels import Array
from evogt_study.study.precision import half_width_of

GOAL = 0.1
"""Half width at which a line is drawn for a study that asks for none: what `[precision]` has as an example."""


def precision(data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None) -> Figure:
    """Half width of the 95 % interval over the number itself after the first n runs, against n, from six runs on.

    A number is the mean, or the median where the mean of a series is not known for a heavy tail. Lines that fall like
    n^(-1/2) are as expected, and a dotted line is at what the study asks for. Raises InputError for a sample of fewer
    than six planned runs, and for axes or variables that are none.
    """
    runs, of, curves = growing(data, variable, places or Places(), FEWEST)
    canvas = panels(len(runs.panels.labels), ax=ax)
    drawn = canvas.axes
    goal = _goal(data, variable)
    widths: list[Array] = [np.array([goal] if goal else [])]  # so that its line is within the scale
    sizes: list[Array] = []
    for (panel, one), (n, middle, low, high) in curves.items():
        half = 0.5 * (high - low) / np.abs(middle)
        known = np.isfinite(half) & (half > 0.0)
        mark = style(one)
        drawn[panel].plot(
            n[known], half[known], color=mark.colour, linestyle=mark.dashes, marker=mark.marker, markersize=3.5,
            linewidth=1.2, gid="half width",
        )  # fmt: skip
        widths.append(half[known])
        sizes.append(n[known])
    for axes, height in product(drawn, [] if goal is None else [goal]):
        axes.axhline(height, color=QUIET, linewidth=0.8, linestyle=(0, (1, 2)), gid="goal")
    logarithmic(drawn[0], "y", np.concatenate(widths))
    logarithmic(drawn[0], "x", np.concatenate(sizes or [np.zeros(0)]))
    named_panels(canvas, runs, wrapped(f"half width of the 95 % interval over the {of}", 32))
    line_legend(canvas, runs, markers=True)
    dotted = f"dotted: {100.0 * goal:g}% of the {of}" if goal else ""
    note(canvas, runs.footnote(dotted, incomplete_told(runs)))
    return laid_out(canvas)


def _goal(data: xr.Dataset, variable: str) -> float | None:
    """The half width, in parts of the number, that the study of a result asks for; None for one in its units."""
    try:
        section = tomllib.loads(str(data.attrs.get("study", ""))).get("precision")
        if isinstance(section, dict) and section.get("variable", "error") == variable:
            width, relative = half_width_of(section.get("half_width", GOAL), "")
            return width if relative and 0.0 < width < np.inf else None
    except (ValueError, TypeError, OverflowError, RecursionError):  # anybody may have written it
        pass
    return GOAL
