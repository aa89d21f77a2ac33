"""How a mean and its interval settle as seeds are added: whether there are enough of them."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from evogt_study.analysis.plots.arranged import Array, Places, arranged
from evogt_study.analysis.plots.histories import WANTED, incomplete_told
from evogt_study.analysis.plots.legends import line_legend
from evogt_study.analysis.plots.style import LABEL_SIZE, laid_out, logarithmic, note, panels, plain, style, wrapped
from evogt_study.analysis.statistics import CI, CONFIDENCE, summary
from evogt_study.errors import InputError

STEPS = 12  # sample sizes at which the interval is computed
MOST = 2000  # runs; the interval of more is a matter of the memory that resampling them takes


def settling(data: xr.Dataset, variable: str = "error", places: Places | None = None) -> Figure:
    """Mean over the first n runs with a value of each series, with its 95 % bootstrap interval, against n.

    The runs are taken in the order of the file, at most 2,000 of them.  Raises InputError for a sample of fewer than
    three planned runs, and for axes or variables that are none.
    """
    runs = arranged(data, variable, places or Places(), wanted=WANTED)
    count = int(runs.planned.sum(axis=-1).max(initial=0))
    if count < 3:
        raise InputError(f"`--over` must name axes with at least three runs together, got {count}")
    figure, drawn = panels(len(runs.panels.labels))
    lowest: list[Array] = []
    shown: list[Array] = []
    for number, axes in enumerate(drawn):
        for one in range(len(runs.series.labels)):
            values = runs.values[number, one, 0]
            values = values[np.isfinite(values)][:MOST]
            if len(values) < 2:
                continue  # the small print counts what is missing
            sizes = np.unique(np.geomspace(2, len(values), STEPS).round().astype(int))
            mean, low, high = settled(values, sizes)
            mark = style(one)
            axes.fill_between(sizes, low, high, color=mark.colour, alpha=0.18, linewidth=0, gid="band")
            axes.plot(
                sizes, mean, color=mark.colour, linestyle=mark.dashes, marker=mark.marker, markersize=3.5,
                linewidth=1.2, gid="mean",
            )  # fmt: skip
            lowest += [low, high]
            shown.append(sizes)
        axes.set_title(plain(runs.panels.told(number)), fontsize=LABEL_SIZE)
        axes.set_xlabel(f"number of runs over {', '.join(runs.over)}", fontsize=LABEL_SIZE)
    if shown:
        logarithmic(drawn[0], "x", np.concatenate(shown))
        logarithmic(drawn[0], "y", np.concatenate(lowest))
    drawn[0].set_ylabel(wrapped(f"mean {runs.title}", 32), fontsize=LABEL_SIZE)
    line_legend(figure, runs, markers=True)
    first = f"the first {MOST:,} of each {count:,} are used" if runs.largest > MOST else ""
    note(figure, runs.footnote(f"band: {CONFIDENCE:.0%} bootstrap interval of the mean", first, incomplete_told(runs)))
    return laid_out(figure)


def settled(values: Array, sizes: Array) -> tuple[Array, Array, Array]:
    """Mean and interval of the first n values for each n of `sizes`; (n,), (k,) -> three of (k,)."""
    found = []
    for size in sizes:
        first = xr.DataArray(values[: int(size)], dims="seed", name="values")
        statistics = summary(first, "seed", statistics=("mean", CI))
        found.append([float(statistics["mean"]), *statistics[CI].values.tolist()])
    mean, low, high = np.array(found).T
    return mean, low, high
