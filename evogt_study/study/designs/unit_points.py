"""Rules by which points of the unit cube are drawn; each belongs to a dimension, a number of points and a seed.

Numbers of SciPy's quasi-Monte Carlo engines (`scipy.stats.qmc`), scrambled by NumPy's PCG64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: `stats` takes half a second, which only samples need

Array = npt.NDArray[np.float64]


def _sobol(dimension: int, count: int, seed: int) -> Array:
    """Points (count, dimension) of a Sobol sequence, scrambled (Owen by linear matrices and shifts: SciPy)."""
    # of a power of two, and cut: the engine warns of other numbers, and we do so once in words of ours
    engine = scipy.stats.qmc.Sobol(dimension, rng=np.random.default_rng(seed))
    points: Array = engine.random_base2(max(count - 1, 1).bit_length())[:count]
    return points


def _halton(dimension: int, count: int, seed: int) -> Array:
    points: Array = scipy.stats.qmc.Halton(dimension, rng=np.random.default_rng(seed)).random(count)
    return points


def _random(dimension: int, count: int, seed: int) -> Array:
    return np.random.default_rng(seed).random((count, dimension))


def _latin_hypercube(dimension: int, count: int, seed: int) -> Array:
    """A Latin hypercube, of which the first half is one too where `count` is even, and so on.

    From the odd part of `count` on the number is doubled: of the intervals of half the width each point is in one, and
    the new points take the others in a random order (Sallaberry, Helton & Hora 2008).
    """
    rng = np.random.default_rng(seed)
    size = count // (count & -count)
    points: Array = scipy.stats.qmc.LatinHypercube(dimension, rng=rng).random(size)
    while size < count:
        # a point may be 1: the sum of an interval and a number below 1 is rounded
        taken = np.floor(points * (2 * size)).astype(int).clip(0, 2 * size - 1)
        free = np.stack([np.setdiff1d(np.arange(2 * size), along) for along in taken.T])
        added = (rng.permuted(free, axis=1).T + rng.random((size, dimension))) / (2 * size)
        points, size = np.concatenate([points, added]), 2 * size
    return points


def _saltelli(dimension: int, count: int, seed: int, second_order: bool = False) -> Array:
    """For each of `count` points (a, b) of a Sobol sequence in twice the dimension: a, a with one of b for each, b.

    second_order: also b with one of a for each, before b.  The order of Saltelli (2002) as in SALib.
    """
    base = _sobol(2 * dimension, count, seed)
    a, b = base[:, None, :dimension], base[:, None, dimension:]
    one = np.eye(dimension, dtype=bool)
    blocks = [a, np.where(one, b, a), *([np.where(one, a, b)] if second_order else []), b]
    return np.concatenate(blocks, axis=1).reshape(-1, dimension)


def _morris(dimension: int, count: int, seed: int, levels: int = 4) -> Array:
    """`count` trajectories of Morris (1991), in each of which every coordinate moves once by p/(2(p - 1)), p levels."""
    # trajectory by trajectory, so that those of a smaller count are the first of a larger one
    drawn = np.random.default_rng(seed).random((count, 3, dimension))
    order, down = np.argsort(drawn[:, 0], axis=1), drawn[:, 1] < 0.5
    lower = np.floor(drawn[:, 2] * (levels // 2))
    # argsort of an order is its inverse: the number of the step at which each coordinate moves
    moved = np.arange(dimension + 1)[:, None] > np.argsort(order, axis=1)[:, None, :]  # (count, d + 1, d)
    upper = moved != down[:, None, :]
    points: Array = (lower[:, None, :] + upper * (levels // 2)) / (levels - 1)
    return points.reshape(-1, dimension)


@dataclass(frozen=True)
class Rule:
    """A rule: `draw` gives the points of (dimension, count, seed), `per_count` of them for each that is counted.

    options: what else `draw` takes, with its default.  nested: the points of a smaller count are the first of a larger
    one.  balanced: the count should be a power of two.  closed: values are at the ends of the unit interval.
    """

    draw: Callable[..., Array]
    nested: bool = True
    balanced: bool = False
    closed: bool = False
    options: Mapping[str, Any] | None = None
    per_count: Callable[..., int] = lambda dimension: 1


RULES: Mapping[str, Rule] = {
    "sobol": Rule(_sobol, balanced=True),
    "halton": Rule(_halton),
    "latin_hypercube": Rule(_latin_hypercube, nested=False),
    "random": Rule(_random),
    "saltelli": Rule(
        _saltelli, balanced=True, options={"second_order": False},
        per_count=lambda dimension, second_order: (2 if second_order else 1) * dimension + 2,
    ),
    "morris": Rule(
        _morris, closed=True, options={"levels": 4}, per_count=lambda dimension, levels: dimension + 1
    ),
}  # fmt: skip
