"""Runs of a sample for pictures: parameters at the points, values by seed, and what is counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from evogt_study.analysis.plots.parts.arranged import Places, arranged, at, axes_of, title_of
from evogt_study.analysis.plots.parts.style import TEXT_WIDTH, logarithmic, plain
from evogt_study.analysis.runs import DRAWN
from evogt_study.analysis.samples import sample_dimensions, sampled
from evogt_study.errors import InputError
from evogt_study.inference.kernels import Array


@dataclass(frozen=True, eq=False)
class SampledRuns:
    """Values (n, k) of one variable at n points (n, D) of D parameters, NaN where a run has none.

    words: of each parameter what its numbers stand for, empty of numbers.  counted: runs in the picture, in words.
    """

    title: str
    label: str
    names: tuple[str, ...]
    titles: tuple[str, ...]
    points: Array
    words: tuple[tuple[str, ...], ...]
    values: Array
    notes: tuple[str, ...]

    def scale(self, axes: Axes, place: int, *, narrow: bool) -> None:
        """Scale the horizontal axis for a parameter: logarithmic where it suits, words at the places of words."""
        if self.words[place]:
            labels = [plain(word) for word in self.words[place]]
            axes.set_xticks(range(len(labels)), labels=labels)
            axes.set_xlim(-0.6, len(labels) - 0.4)
        else:
            logarithmic(axes, "x", self.points[:, place])
            if narrow and axes.get_xscale() == "log" and np.ptp(np.log10(self.points[:, place])) > 3:
                room = 4 if axes.figure.figure.get_figwidth() >= TEXT_WIDTH else 3  # numbers that do not meet
                axes.xaxis.set_major_locator(LogLocator(numticks=room))

    # words: by the golden ratio, of which any number of multiples fills the width evenly
    def spread(self, place: int) -> Array:
        """Values of a parameter for each run, (n k,), words a little apart so that runs do not hide each other."""
        each = np.repeat(self.points[:, place], self.values.shape[1])
        if not self.words[place]:
            return each
        return np.asarray(each + 0.5 * (np.arange(len(each)) * 0.6180339887498949 % 1.0 - 0.5))

    def footnote(self, *more: str) -> str:
        """The small print."""
        return "; ".join([self.notes[0], *filter(None, more), *self.notes[1:]])


def sampled_runs(data: xr.Dataset, variable: str, places: Places) -> SampledRuns:
    """The runs of a sample; of other axes the first value is held, or that of `at`.  Raises InputError without one."""
    here = at(data, places.at, axes_of(data, variable)) if variable in data else data
    over = (
        list(places.over)
        if places.over is not None
        else sample_dimensions(here[variable])[:1]
        if variable in here
        else []
    )
    if not over:
        raise InputError(f"`--over` must name the dimension of a sample, there is none of `{variable}`")
    over = [dim for dim in over if dim != DRAWN]
    wanted = Places(over=(*over, *([DRAWN] if DRAWN in here[variable].dims else [])), at=places.at)
    runs = arranged(data, variable, wanted, wanted=())
    sample = sampled(here[variable], over)
    count = len(sample.points)
    values = runs.values[0, 0, 0].reshape(count, -1)
    titles = tuple(title_of(here[name]) if name in here.coords else name for name in sample.names)
    return SampledRuns(
        runs.title, runs.label, sample.names, titles, sample.points, sample.words, values,
        (runs.counted(), *runs.notes),
    )  # fmt: skip
