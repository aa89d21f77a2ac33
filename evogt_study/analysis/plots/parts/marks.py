"""The marks of a drawn figure: where in the picture each stands, and its numbers, for a page that shows them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import FixedFormatter

Array = npt.NDArray[np.float64]
SILENT = frozenset({"interval", "reference", "cut", "trend", "lost", "ground", "front", "chosen", "beyond"})
"""Lines that stand for no numbers of their own."""


class Marks(NamedTuple):
    """Marks of one kind: `name` as drawn, "runs" for single runs; places (n, 2) from the upper left corner, 0 to 1.

    x (n,): their numbers along the picture, NaN where it has words there; values (n,): what they show.
    """

    name: str
    places: Array
    x: Array
    values: Array


def marks(figure: Figure) -> list[Marks]:
    """All marks of a figure whose layout is settled."""
    return [each for axes in figure.axes if axes.get_label() != "<colorbar>" for each in _of_axes(axes) if len(each.x)]


def _of_axes(axes: Axes) -> list[Marks]:
    found = []
    for line in axes.get_lines():
        name = str(line.get_gid() or "value")
        if name not in SILENT and line.get_transform() == axes.transData:  # `axhline` is partly in heights of a panel
            points = np.asarray(line.get_xydata(), dtype=float)
            along_x = name in ("effect", "best")  # numbers from left to right, in rows of words
            found.append(_marks(axes, name, points, points[:, 0] if along_x else points[:, 1], number=not along_x))
    for drawn in axes.collections:
        if isinstance(drawn, PathCollection) and drawn.get_array() is not None and drawn.get_gid() not in SILENT:
            points = np.asarray(drawn.get_offsets(), dtype=float)
            found.append(_marks(axes, str(drawn.get_gid() or "value"), points, _plain(drawn.get_array())))
        if isinstance(drawn, QuadMesh):
            corners = np.asarray(drawn.get_coordinates(), dtype=float)
            centres = (corners[1:, 1:] + corners[:-1, :-1]) / 2.0
            found.append(_marks(axes, "value", centres.reshape(-1, 2), _plain(drawn.get_array())))
    found += [_of_image(axes, image) for image in axes.images]
    for bars in axes.containers:
        if isinstance(bars, BarContainer):
            ends = np.array([(bar.get_x() + bar.get_width(), bar.get_y() + bar.get_height() / 2.0) for bar in bars])
            found.append(_marks(axes, "share", ends.reshape(-1, 2), ends.reshape(-1, 2)[:, 0], number=False))
    return found


def _of_image(axes: Axes, image: AxesImage) -> Marks:
    """The cells of a picture of whole numbers, as `imshow` counts them."""
    array: Array = np.ma.filled(np.ma.asarray(image.get_array(), dtype=float), np.nan)
    rows, columns = np.indices(array.shape)
    return _marks(
        axes, "median", np.stack([columns.ravel(), rows.ravel()], axis=-1).astype(float), array.ravel(), number=False
    )


def _plain(array: object) -> Array:
    return np.ma.filled(np.ma.asarray(array, dtype=float), np.nan).ravel()


def _marks(axes: Axes, name: str, points: Array, values: Array, *, number: bool = True) -> Marks:
    """Marks at the points (n, 2) in the numbers of their axes; those outside of the panel are left out."""
    inside = axes.transAxes.inverted().transform(axes.transData.transform(points))
    places = axes.figure.transFigure.inverted().transform(axes.transData.transform(points))
    shown = np.isfinite(values) & (np.abs(inside - 0.5) <= 0.52).all(axis=-1)  # 0.02: marks on an edge
    words = not number or (isinstance(axes.xaxis.get_major_formatter(), FixedFormatter) and not _numbers(axes))
    x = np.full(len(points), np.nan) if words else points[:, 0]
    return Marks(name, np.stack([places[:, 0], 1.0 - places[:, 1]], axis=-1)[shown], x[shown], values[shown])


def _numbers(axes: Axes) -> bool:
    """Test for tick labels that are the numbers of their places."""
    labels = [tick.get_text().replace("−", "-") for tick in axes.get_xticklabels()]
    return bool(labels) and all(_is(label, place) for label, place in zip(labels, axes.get_xticks(), strict=False))


def _is(label: str, place: float) -> bool:
    try:
        return bool(np.isclose(float(label), place, rtol=1e-4))
    except ValueError:
        return False
