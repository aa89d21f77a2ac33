"""Pictures of labelled results, as the paper has them.  The one file of the package that imports matplotlib.

Figures are made through matplotlib's objects, without pyplot: no display, no list of open figures, and threads may
draw at the same time.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from evogt_study.errors import InputError

TEXT_WIDTH = 6.5  # inches, of the paper
LABEL_SIZE = 8  # points
TICK_SIZE = 7

# Okabe and Ito's colours but yellow, which is too light for a line; each with a dash pattern of its own, for readers
# and printers without colour
STYLES: tuple[tuple[str, Any], ...] = (
    ("#000000", "solid"),
    ("#D55E00", "dashed"),
    ("#0072B2", "dashdot"),
    ("#009E73", "dotted"),
    ("#CC79A7", (0, (7, 2))),
    ("#E69F00", (0, (3, 1, 1, 1, 1, 1))),
    ("#56B4E9", (0, (1, 3))),
)

_SVG_LOCK = threading.Lock()


def field_panels(exact: xr.DataArray, numerical: xr.DataArray) -> Figure:
    """Exact field, numerical field and absolute error over (x, y) in [0, 1]^2, the first two on one colour scale.

    Raises InputError where the fields are not both over x and y, at the same points.
    """
    upright = [_upright(exact, "exact"), _upright(numerical, "numerical")]
    _check_same_points(*upright)
    fields = [np.asarray(field.values, dtype=float) for field in upright]
    error = np.abs(fields[1] - fields[0])
    limit, largest = _largest([*fields]), _largest([error])
    figure = Figure(figsize=(TEXT_WIDTH, 2.25), layout="constrained")
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    colours = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    _panel(axes[0], upright[0], fields[0], "exact", **colours)
    shared = _panel(axes[1], upright[0], fields[1], "numerical", **colours)
    own = _panel(axes[2], upright[0], error, "absolute error", cmap="viridis", vmin=0.0, vmax=largest)
    axes[0].set_ylabel(_name(upright[0], "y"), fontsize=LABEL_SIZE)
    _colour_bar(axes[1], shared)
    _colour_bar(axes[2], own)
    return _laid_out(figure)


def energy_histories(histories: Mapping[str, xr.DataArray]) -> Figure:
    """E(t) / E(0) against time for each labelled history over `time`.

    Raises InputError for no history, one that is not over `time` alone, or one whose first value is zero or not finite.
    """
    if not histories:
        raise InputError("`histories` must hold at least one energy history, got none")
    figure = Figure(figsize=(4.1, 2.6), layout="constrained")
    axes = figure.subplots()
    for number, (label, history) in enumerate(histories.items()):
        colour, dashes = STYLES[number % len(STYLES)]
        ratio = _normalised(label, history)
        axes.plot(ratio["time"].values, ratio.values, color=colour, linestyle=dashes, linewidth=1.4, label=label)
    axes.set_xlabel("time $t$", fontsize=LABEL_SIZE)
    axes.set_ylabel("$E_q(t)\\,/\\,E_q(0)$", fontsize=LABEL_SIZE)
    axes.tick_params(labelsize=TICK_SIZE)
    axes.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))  # 0.98, not "-0.02 + 1"
    axes.margins(x=0.0)
    axes.grid(color="0.88", linewidth=0.5)
    axes.legend(fontsize=LABEL_SIZE, frameon=False, handlelength=3.0)
    return _laid_out(figure)


def svg(figure: Figure) -> str:
    """The figure as SVG text, letters as outlines; the same figure gives the same text."""
    stream = io.BytesIO()
    # without a salt the identifiers are random, and there is no other place to give one than the global settings
    with _SVG_LOCK, matplotlib.rc_context({"svg.hashsalt": "evogt", "svg.fonttype": "path"}):
        figure.savefig(stream, format="svg", dpi=200, metadata={"Date": None})
    return stream.getvalue().decode()


def png(figure: Figure, dpi: float = 200.0) -> bytes:
    """The figure as PNG; the same figure gives the same bytes."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
    return stream.getvalue()


def _upright(field: xr.DataArray, role: str) -> xr.DataArray:
    """The field with y down the rows, as pictures are stored: what is drawn horizontally is the last dimension."""
    if set(field.dims) != {"x", "y"} or not field.size:
        raise InputError(f"the {role} field must have points over dimensions x and y, got {dict(field.sizes)}")
    return field.transpose("y", "x")


def _check_same_points(exact: xr.DataArray, numerical: xr.DataArray) -> None:
    """Fields at other points have no difference; xarray would silently keep the points in common."""
    for dim in ("x", "y"):
        one, other = exact[dim].values, numerical[dim].values
        if one.shape != other.shape or not np.allclose(one, other, rtol=0.0, atol=1e-12):
            raise InputError(f"the exact and the numerical field must be at the same points, they differ in {dim}")


def _largest(fields: list[npt.NDArray[np.float64]]) -> float:
    """Largest finite magnitude; one where there is none, since a colour scale needs a width."""
    finite = np.concatenate([np.abs(field[np.isfinite(field)]) for field in fields])
    return float(finite.max(initial=0.0)) or 1.0


def _panel(axes: Axes, points: xr.DataArray, values: npt.NDArray[np.float64], title: str, **colours: Any) -> Any:
    """One coloured panel; the points may be spaced unevenly.  As an image also in SVG: else a path for each cell."""
    mesh = axes.pcolormesh(
        points["x"].values, points["y"].values, values, shading="nearest", rasterized=True, **colours
    )
    axes.set_aspect("equal")
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    axes.set_title(title, fontsize=LABEL_SIZE)
    axes.set_xlabel(_name(points, "x"), fontsize=LABEL_SIZE)
    axes.tick_params(labelsize=TICK_SIZE)
    axes.set_xticks([0.0, 0.5, 1.0], labels=["0", "0.5", "1"])
    axes.set_yticks([0.0, 0.5, 1.0], labels=["0", "0.5", "1"])
    return mesh


def _colour_bar(axes: Axes, mesh: Any) -> None:
    """A colour bar beside a panel, as tall as the panel, whatever room its equal aspect leaves."""
    number_format = ScalarFormatter(useMathText=True)
    number_format.set_powerlimits((-2, 3))
    beside = axes.inset_axes((1.05, 0.0, 0.06, 1.0))
    axes.figure.colorbar(mesh, cax=beside, format=number_format)
    beside.tick_params(labelsize=TICK_SIZE)
    beside.yaxis.get_offset_text().set_fontsize(TICK_SIZE)
    beside.yaxis.set_offset_position("left")


def _name(field: xr.DataArray, dim: str) -> str:
    return str(field[dim].attrs.get("long_name", dim))


def _normalised(label: str, history: xr.DataArray) -> xr.DataArray:
    if history.dims != ("time",) or not history.size:
        raise InputError(f"the history {label!r} must have values over time alone, got {dict(history.sizes)}")
    first = float(history[0])
    if not np.isfinite(first) or first == 0.0:
        raise InputError(f"the history {label!r} cannot be divided by its first value, {first}")
    return history / first


def _laid_out(figure: Figure) -> Figure:
    """The figure with its layout settled, which otherwise moves a little each time the figure is drawn."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure
