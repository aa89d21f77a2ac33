"""Precision of a number against the number of seeds: half the width of its interval, in parts of the number."""

from __future__ import annotations

from itertools import product

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from evogt_study.analysis.plots.histories import WANTED, incomplete_told
from evogt_study.analysis.plots.parts.arranged import Array, Places, arranged
from evogt_study.analysis.plots.parts.canvas import Given, laid_out, note, panels
from evogt_study.analysis.plots.parts.legends import line_legend
from evogt_study.analysis.plots.parts.style import QUIET, label_size, logarithmic, plain, style, wrapped
from evogt_study.analysis.plots.settling import MOST, Key, headline, settled
from evogt_study.errors import InputError
from evogt_study.inference.intervals import FEWEST

GOAL = 0.1
"""Half width at which a line is drawn: what `[precision]` asks for as an example."""


def precision(data: xr.Dataset, variable: str = "error", places: Places | None = None, *, ax: Given = None) -> Figure:
    """Half width of the 95 % interval over the number itself after the first n runs, against n, from six runs on.

    A number is the mean, or the median where the mean of a series is not known for a heavy tail.  Lines that fall like
    n^(-1/2) are as expected.  Raises InputError for a sample of fewer than six planned runs, and for axes or variables
    that are none.
    """
    runs = arranged(data, variable, places or Places(), wanted=WANTED)
    if int(runs.planned.sum(axis=-1).max(initial=0)) < FEWEST:
        raise InputError(f"`--over` must name axes with at least {FEWEST} runs together")
    canvas = panels(len(runs.panels.labels), ax=ax)
    drawn = canvas.axes
    samples: dict[Key, Array] = {
        (panel, one): values[np.isfinite(values)][:MOST]
        for panel, one in product(*map(range, runs.values.shape[:2]))
        for values in [runs.values[panel, one, 0]]
    }
    of = headline(samples.values())
    widths: list[Array] = [np.array([GOAL])]
    sizes: list[Array] = []
    for (panel, one), (n, middle, low, high) in settled(samples, of).items():
        half = 0.5 * (high - low) / np.abs(middle)
        known = np.isfinite(half) & (half > 0.0)
        mark = style(one)
        drawn[panel].plot(
            n[known], half[known], color=mark.colour, linestyle=mark.dashes, marker=mark.marker, markersize=3.5,
            linewidth=1.2, gid="half width",
        )  # fmt: skip
        widths.append(half[known])
        sizes.append(n[known])
    for panel, axes in enumerate(drawn):
        axes.axhline(GOAL, color=QUIET, linewidth=0.8, linestyle=(0, (1, 2)))
        axes.set_title(plain(runs.panels.told(panel)), fontsize=label_size())
        axes.set_xlabel(f"number of runs over {', '.join(runs.over)}", fontsize=label_size())
    logarithmic(drawn[0], "y", np.concatenate(widths))
    logarithmic(drawn[0], "x", np.concatenate(sizes or [np.zeros(0)]))
    drawn[0].set_ylabel(wrapped(f"half width of the 95 % interval over the {of}", 32), fontsize=label_size())
    line_legend(canvas, runs, markers=True)
    note(canvas, runs.footnote(f"dotted: {GOAL:.0%} of the {of}", incomplete_told(runs)))
    return laid_out(canvas)
