"""Boxes of letter values, for samples of which the points would hide each other."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from evogt_study.inference.kernels import Array

TOLD_APART = 2.0 * 1.959963984540054**2
"""Runs at the depth of a letter value from which on its 95 % interval ends before the next one, 2 z^2 (Hofmann, Wickham
and Kafadar, J. Comput. Graph. Stat. 26, 2017)."""
WIDEST, NARROWEST = 0.84, 0.2
"""Widths of the boxes of the fourths and of the last letter values, in parts of a group's."""


def letter_values(sample: Array) -> Array:
    """Lower and upper fourths, eighths, sixteenths, ...: quantiles 2^-i and 1 - 2^-i for i = 2, 3, ..., (k, 2).

    As many as their intervals tell apart, none of fewer than 16 runs; beyond the last are 4 to 8 runs at either end.
    """
    count = max(0, int(np.floor(np.log2(max(len(sample), 1) / TOLD_APART))))
    tails = 0.5 ** np.arange(2, count + 2)
    return np.stack([np.quantile(sample, tails), np.quantile(sample, 1.0 - tails)], axis=-1)


def letter_boxes(axes: Axes, centre: float, width: float, ends: Array, colour: str) -> None:
    """A box between the ends of each letter value: the further out, the narrower and the lighter."""
    base = np.array(to_rgb(colour))
    for number, (low, high) in enumerate(ends):
        part = number / max(1, len(ends) - 1)
        half = 0.5 * width * (WIDEST + (NARROWEST - WIDEST) * part)
        shade = 0.65 - 0.5 * part
        axes.fill_between(
            [centre - half, centre + half], low, high, facecolor=shade * base + (1.0 - shade), edgecolor="black",
            linewidth=0.4, zorder=2.9 - 0.02 * number, gid="band",  # below medians, at 3; inner boxes on outer ones
        )  # fmt: skip
