"""Plot a variable along a dimension of its own, such as time, and the decay of singular values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from evogt_study.analysis.export import on_grid
from evogt_study.errors import InputError
from evogt_study.inference.kernels import Array
from evogt_study.plots.canvas import Given, labelled, laid_out, line_legend, new_canvas, note, panels
from evogt_study.plots.groups import Arranged, Places, arranged, at, axes_of, label_of, numbers_in
from evogt_study.plots.style import QUIET, STYLES, Style, label_size, plain, scale_values, style, tick_size

WHOLE = 20  # largest number of runs whose band shows all of them; with more, it goes from 5 % to 95 %
GRID = 200  # points of a grid for runs that have points of their own
MARKED = 15  # number of places from which on lines have no markers
WANTED = ("by", "panel")
SINGULAR_VALUES = "singular_values"
MOST_CUTS = 4


def histories(
    data: xr.Dataset, variable: str = "error_history", places: Places | None = None, *, ax: Given = None
) -> Figure:
    """Values over the variable's own dimension: the median of each series, within a band of its runs.

    The bands are of all runs where no series has more than 20, else from 5 % to 95 %, each at its own place.  Raises
    InputError for a variable without one dimension of its own, and for axes that are none.
    """
    data, dim = _against_own_coordinate(data, variable, own_dimension(data, variable))
    runs = arranged(data, variable, places or Places(), wanted=WANTED, own=True)
    x = np.asarray(data[dim].values, dtype=float)
    canvas = panels(len(runs.panels.labels), ax=ax)
    drawn = canvas.axes
    for number, axes in enumerate(drawn):
        for one in range(len(runs.series.labels)):
            bundle(axes, x, runs.values[number, one, 0], style(one), band_levels(runs))
        axes.set_title(plain(runs.panels.describe(number)), fontsize=label_size())
        axes.set_xlabel(labelled(label_of(data[dim]), 48), fontsize=label_size())
        axes.margins(x=0.0 if len(x) >= MARKED else 0.03)
        if (x == np.round(x)).all():
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    scale_values(drawn[0], "y", runs.values, error=runs.is_error)
    drawn[0].set_ylabel(labelled(runs.label, 32), fontsize=label_size())
    line_legend(canvas, runs)
    note(canvas, runs.footnote(incomplete_told(runs), band_told(runs)))
    return laid_out(canvas)


def _against_own_coordinate(data: xr.Dataset, variable: str, dim: str) -> tuple[xr.Dataset, str]:
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
    grid = np.linspace(np.nanmin(own), np.nanmax(own), GRID) if np.isfinite(own).any() else np.zeros(1)
    return data.drop_vars(along).assign({variable: on_grid(values, along, grid)}), along


def bundle(axes: Axes, x: Array, values: Array, mark: Style, levels: Sequence[float]) -> None:
    """Median and band at each x of values (n, X), by the quantiles `levels`; runs without any value are left out."""
    lines = values[np.isfinite(values).any(axis=-1)]
    if not len(lines):
        return
    there = np.isfinite(lines).any(axis=0)
    low, middle, high = np.nanquantile(lines[:, there], levels, axis=0)
    if len(lines) > 1:
        axes.fill_between(x[there], low, high, color=mark.colour, alpha=0.18, linewidth=0, gid="band")
    few: dict[str, Any] = {"marker": mark.marker, "markersize": 3.0} if there.sum() < MARKED else {}
    axes.plot(x[there], middle, color=mark.colour, linestyle=mark.dashes, linewidth=1.3, gid="median", **few)


def band_levels(runs: Arranged) -> Sequence[float]:
    """Quantiles of all bands of a picture, with the median between them."""
    return (0.0, 0.5, 1.0) if runs.largest <= WHOLE else (0.05, 0.5, 0.95)


def band_told(runs: Arranged) -> str:
    """Description of the band, for the small print."""
    if runs.largest <= 1:
        return ""
    return f"line: median; band: {'all' if runs.largest <= WHOLE else '5 to 95 % of'} runs over {', '.join(runs.over)}"


def incomplete_told(runs: Arranged) -> str:
    """Lines that rest on fewer runs than were planned."""
    lacking = []
    for panel, one in np.ndindex(runs.planned.shape[:2]):
        ok, planned = runs.ok_of(panel, one, 0)
        if ok < planned:
            where = ", ".join(filter(None, (runs.series.describe(one), runs.panels.describe(panel))))
            lacking.append(f"{ok}/{planned}" + (f" at {where}" if where else ""))
    return ", ".join(lacking[:4]) + (f" and {len(lacking) - 4} more lines" if len(lacking) > 4 else "")


def own_dimension(data: xr.Dataset, variable: str) -> str:
    """The one dimension that a variable has besides the study's axes.  Raises InputError."""
    numbers_in(data, variable)
    own = own_dimensions(data, variable)
    if len(own) != 1:
        have = ", ".join(name for name in map(str, data.data_vars) if is_history(data, name)) or "none"
        raise InputError(
            f"`--variable` must have one dimension besides the axes, as time ({have}), got {variable} over "
            f"{', '.join(own) or 'the axes alone'}"
        )
    return own[0]


def own_dimensions(data: xr.Dataset, variable: str) -> list[str]:
    """Dimensions of a variable that are no axes of the study."""
    axes = axes_of(data, variable) if "run_status" in data else ()
    return [str(dim) for dim in data[variable].dims if dim not in axes]


# a mode, node or feature is not a quantity; singular values have `spectrum`
def is_history(data: xr.Dataset, variable: str) -> bool:
    """Test for a variable that is drawn well as a line over its one own dimension."""
    own = own_dimensions(data, variable)
    if len(own) != 1 or data[variable].dtype.kind not in "iuf" or own[0] in ("mode", "node", "feature"):
        return False
    return data.sizes[own[0]] > 1 and (own[0] not in data.coords or data[own[0]].dtype.kind in "iuf")


def spectrum(data: xr.Dataset, places: Places | None = None, *, ax: Given = None) -> Figure:
    """Draw sigma_i / sigma_1 against i, with a line at sqrt(tau) for each threshold, below which values are cut.

    An axis tau has no curves of its own: of its runs, whose singular values are the same, the first with a value is
    drawn, and one named in `at` has the only cut.  Zeros, which fewer nodes than features leave, are not drawn.  Raises
    InputError where the singular values were not recorded, and for axes that are none.
    """
    if SINGULAR_VALUES not in data:
        raise InputError(
            f"`{SINGULAR_VALUES}` must be in the file to draw their decay; put it into `record` of the study's [output]"
        )
    here, wish, cuts = _decompositions(data, places or Places())
    runs = arranged(here, SINGULAR_VALUES, wish, wanted=WANTED, own=True)
    with np.errstate(invalid="ignore"):
        relative = runs.values / runs.values[..., :1]
    relative[~(relative > 0.0)] = np.nan
    index = np.arange(1, relative.shape[-1] + 1, dtype=float)
    canvas = panels(len(runs.panels.labels), ax=ax)
    drawn = canvas.axes
    lines = []
    for number, axes in enumerate(drawn):
        for one in range(len(runs.series.labels)):
            bundle(axes, index, relative[number, one, 0], style(one), band_levels(runs))
        lines = [
            axes.axhline(np.sqrt(tau), color=QUIET, linewidth=0.9, linestyle=(0, (1, 1 + 2 * i)), gid="cut",
                         label=rf"$\sqrt{{\tau}}$, $\tau$ = {tau:g}".replace("e-", "e−"))
            for i, tau in enumerate(cuts)
        ]  # fmt: skip
        axes.set_title(plain(runs.panels.describe(number)), fontsize=label_size())
        axes.set_xlabel("index $i$", fontsize=label_size())
        axes.margins(x=0.01)
    if np.isfinite(relative).any():
        drawn[0].set_yscale("log")
    drawn[0].set_ylabel(r"singular value $\sigma_i / \sigma_1$", fontsize=label_size())
    cut_lines: list[Line2D] = lines
    line_legend(canvas, runs, *cut_lines)
    note(canvas, runs.footnote(band_told(runs)))
    return laid_out(canvas)


def _decompositions(data: xr.Dataset, places: Places) -> tuple[xr.Dataset, Places, list[float]]:
    """The data and places without the axis tau, and the thresholds that are to be drawn."""
    if "tau" not in data[SINGULAR_VALUES].dims:
        return data, places, _cuts(data)
    for option, named in (("by", [places.by]), ("panel", [places.panel]), ("over", places.over or ())):
        if "tau" in named:
            raise InputError(f"`--{option}` must not be tau, which cuts singular values and does not change them")
    if "tau" in places.at:
        data = at(data, {"tau": places.at["tau"]}, axes_of(data, SINGULAR_VALUES))
        others = {name: value for name, value in places.at.items() if name != "tau"}
        return data, replace(places, at=others), _cuts(data)
    known = data[SINGULAR_VALUES].notnull().any(own_dimensions(data, SINGULAR_VALUES))
    names = [name for name in (SINGULAR_VALUES, "run_status", "run_key") if name in data]
    return data[names].isel(tau=known.argmax("tau")).drop_vars("tau"), places, _cuts(data)


def _cuts(data: xr.Dataset) -> list[float]:
    """The thresholds of the study, at most four of them, the extremes among these."""
    if "tau" not in data.coords or data["tau"].dtype.kind != "f":
        return []
    values = np.unique(data["tau"].values[np.isfinite(data["tau"].values)])
    chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST_CUTS)).round().astype(int))
    return [float(values[i]) for i in chosen]


def energy_histories(histories: Mapping[str, xr.DataArray], *, ax: Given = None) -> Figure:
    """E(t) / E(0) against time for each labelled history over `time`.

    Raises InputError for no history, one that is not over `time` alone, or one whose first value is zero or not finite.
    """
    if not histories:
        raise InputError("`histories` must hold at least one energy history, got none")
    canvas = new_canvas(1, 1, (4.1, 2.6), ax)
    (axes,) = canvas.axes
    for number, (label, history) in enumerate(histories.items()):
        colour, dashes = STYLES[number % len(STYLES)]
        ratio = _normalised(label, history)
        axes.plot(ratio["time"].values, ratio.values, color=colour, linestyle=dashes, linewidth=1.4, label=label)
    axes.set_xlabel("time $t$", fontsize=label_size())
    axes.set_ylabel("$E_q(t)\\,/\\,E_q(0)$", fontsize=label_size())
    axes.tick_params(labelsize=tick_size())
    axes.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))  # 0.98, not "-0.02 + 1"
    axes.margins(x=0.0)
    axes.grid(color="0.88", linewidth=0.5)
    axes.legend(fontsize=label_size(), frameon=False, handlelength=3.0)
    return laid_out(canvas)


def _normalised(label: str, history: xr.DataArray) -> xr.DataArray:
    if history.dims != ("time",) or not history.size:
        raise InputError(f"the history {label!r} must have values over time alone, got {dict(history.sizes)}")
    first = float(history[0])
    if not np.isfinite(first) or first == 0.0:
        raise InputError(f"the history {label!r} cannot be divided by its first value, {first}")
    return history / first
