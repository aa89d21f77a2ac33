"""Choose the number of seeds for a target precision from the first n values of a setup in the order of its seeds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy  # it imports scipy.special and scipy.optimize at the first use

from evogt_study.errors import ParameterError
from evogt_study.inference import kernels
from evogt_study.inference.intervals import CONFIDENCE, Interval, interval, ratio_interval, share_interval
from evogt_study.inference.kernels import Array, Counts, kernel_of

_STATISTICS = ("mean", "median", "ratio")
FIRST = 20  # seeds in the first batch of a setup: fewer show no reliable spread, and the paper has 20
GROWTH = 2.0  # largest factor of a batch, which limits the cost of an early spread that is too large
STEP = 1.05  # sizes of samples are powers of this times the first: the last batch is too large by 2.5 % on average
CONSTANT = 59  # equal values after which a different value has a probability below 5 %, at 95 %: 0.95^59 < 0.05
LOOKS = 10  # looks, at equal steps of information, over which the confidence holds; with 20, 2 % wider


@dataclass(frozen=True)
class Goal:
    """Target precision of every setup: largest relative or absolute half width of the interval of a statistic."""

    statistic: str = "mean"
    half_width: float = 0.1
    relative: bool = True
    confidence: float = CONFIDENCE
    max_seeds: int = 2000
    first: int = FIRST

    def __post_init__(self) -> None:
        if self.statistic not in _STATISTICS:
            raise ParameterError("statistic", f"one of {', '.join(_STATISTICS)}", self.statistic)
        if not 0.0 < self.half_width < np.inf:
            raise ParameterError("half_width", "a positive number", self.half_width, remedy='use e.g. "10 %"')
        if not 0.5 <= self.confidence < 1.0:
            raise ParameterError("confidence", "in [0.5, 1)", self.confidence, remedy="use e.g. 0.95")
        if self.max_seeds < self.first:
            raise ParameterError("max_seeds", f"at least {self.first}, the first batch", self.max_seeds)


class Look(NamedTuple):
    """Value, confidence interval and half width of a statistic after n seeds."""

    n: int
    value: float
    low: float
    high: float
    half_width: float


@dataclass(frozen=True)
class Decision:
    """Decision whether a setup needs more seeds, with all looks and the expected number of seeds."""

    looks: tuple[Look, ...]
    wanted: int  # seeds for the next look or, at the end, the seeds used
    expected: int
    reason: str  # known, constant, failed (no run of the first batch has a value), at most, or "" if it needs more


def decide(values: Array, goal: Goal) -> Decision:
    """Decide whether a setup needs more seeds from values (n,), or (2, n) for a ratio, in the order of the seeds."""
    columns = np.atleast_2d(values)
    size, looks = goal.first, []
    # repeat all looks from the first: the decision of a resumed study must not depend on the time of the stop
    while size <= columns.shape[1]:
        seen = Look(size, *(float(each[0]) for each in compute_look(columns[None, :, :size], goal)))
        looks.append(seen)
        common = columns[:, :size][:, ~np.isnan(columns[:, :size]).any(axis=0)]
        equal, many = bool((common == common[:, :1]).all()), common.shape[1] >= CONSTANT
        narrow, share = seen.half_width <= goal.half_width, goal.statistic == "mean" and kernels.is_two_valued(common)
        reasons = {
            "failed": not common.shape[1], "constant": equal and many and not share,
            "known": narrow and (many or not equal), "at most": size >= goal.max_seeds,
        }  # fmt: skip
        if any(reasons.values()):
            return Decision(tuple(looks), size, size, next(each for each, holds in reasons.items() if holds))
        size = int(choose_next_sizes(np.array([np.inf if narrow else seen.half_width]), size, goal)[0])
    expected = predict_sizes(np.array([looks[-1].half_width]), looks[-1].n, goal)[0] if looks else size
    return Decision(tuple(looks), size, int(max(expected, size)), "")


def compute_look(samples: Array, goal: Goal) -> tuple[Array, Array, Array, Array]:
    """Return value, lower end, upper end and half width for m setups of equal size, (m, 1 or 2, n) -> four of (m,)."""
    how = Interval("median" if goal.statistic == "median" else "mean", "", compute_look_confidence(goal.confidence))
    if goal.statistic == "ratio":
        there = ~np.isnan(samples).any(axis=1, keepdims=True)
        above, below = np.moveaxis(np.where(there, samples, np.nan), 1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = kernels.mean(above) / kernels.mean(below)
        limits = ratio_interval(above, below, how, logarithmic=True)
    else:
        values = samples[:, 0]
        value, limits = kernel_of(how.of)[0](values), interval(values[:, :, None], how)
        few = kernels.count(values) < how.min_units
        limits[few] = np.nan  # a narrow interval of few values stops early
        for row in np.flatnonzero(~few) if goal.statistic == "mean" else ():
            known = np.unique(values[row][~np.isnan(values[row])])
            low, high = (0.0, 1.0) if kernels.is_two_valued(known) else known[[0, -1]]
            if len(known) == 2 or kernels.is_two_valued(known):
                ones = np.where(np.isnan(values[row]), np.nan, values[row] == high)
                limits[row] = low + (high - low) * share_interval(ones[:, None], how.confidence)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = 0.5 * (limits[:, 1] - limits[:, 0]) / (np.abs(value) if goal.relative else 1.0)
    # a setup without an interval has the worst precision
    return value, limits[:, 0], limits[:, 1], np.where(np.isnan(half), np.inf, half)


def predict_sizes(half_widths: Array, size: int, goal: Goal) -> Array:
    """Predict the seeds that setups need from their `half_widths` after `size` seeds, which fall like 1 / sqrt(n)."""
    with np.errstate(over="ignore"):
        return np.minimum(np.ceil(size * (half_widths / goal.half_width) ** 2), goal.max_seeds)


def choose_next_sizes(half_widths: Array, size: int, goal: Goal) -> Counts:
    """Return the number of seeds at the next look: the prediction, at most `GROWTH` * `size`, on the grid of sizes."""
    wanted = np.clip(predict_sizes(half_widths, size, goal), size + 1, GROWTH * size)
    steps = np.ceil(np.log(wanted / goal.first) / np.log(STEP) - 1e-9)
    return np.asarray(np.minimum(np.ceil(goal.first * STEP**steps), goal.max_seeds), dtype=np.int64)


@lru_cache
def compute_look_confidence(confidence: float) -> float:
    """Return the confidence of each look that gives `confidence` over all looks (O'Brien & Fleming 1979)."""
    return float(2.0 * scipy.special.ndtr(compute_boundary(confidence, LOOKS)) - 1.0)


def compute_boundary(confidence: float, looks: int) -> float:
    """Return c with P(|W_k| <= c sqrt(K) for k = 1 .. K) = confidence for sums W_k of k standard normal numbers."""
    points, weights = np.polynomial.legendre.leggauss(200)  # more change the boundary by less than 1e-9

    def outside(constant: float) -> float:  # by recursive integration (Armitage et al. 1969)
        edge = constant * np.sqrt(looks)
        nodes = edge * points
        density = np.exp(-0.5 * nodes**2) / np.sqrt(2.0 * np.pi)
        steps = np.exp(-0.5 * (nodes[:, None] - nodes) ** 2) / np.sqrt(2.0 * np.pi)
        for _ in range(looks - 1):
            density = steps @ (edge * weights * density)
        return float(edge * weights @ density) - confidence

    return float(scipy.optimize.brentq(outside, 0.1, 10.0, xtol=1e-8))
