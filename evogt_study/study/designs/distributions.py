"""Distributions of a sampled parameter: its values at numbers of the unit interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: `special` takes 0.2 s, which only samples need

from evogt_study.study.designs.place import Place
from evogt_study.study.designs.ranges import rounded

Array = npt.NDArray[np.float64]
Quantiles = Callable[[Array], list[Any]]
"""Values at numbers of the unit interval."""
SMALLEST = 2.0**-32
"""Distance from 0 and 1 that unbounded quantiles keep: Sobol's numbers are multiples of 2^-30, and may be 0."""
FARTHEST = 7.0
"""Of a normal distribution's values, in standard deviations: the quantile of `SMALLEST` is -6.2."""
MOST_INTEGERS = 2**53
"""Numbers of the unit interval have 53 bits, which tell no more integers apart."""

FORMS = (
    '{ from, to }, { from, to, scale = "log" }, { integers = { from, to } }, { normal = { mean, std } } '
    "or { choice = [...] }"
)


def distribution(raw: Any, place: Place, closed: bool) -> Quantiles:
    """The quantiles of a distribution as a study file states it; closed: 0 and 1 are drawn.  Raises StudyError."""
    if not isinstance(raw, dict):
        raise place.mistake(FORMS, raw, "one value belongs in [constants]")
    kinds = [name for name in KINDS if name in raw]
    if not kinds:
        return _box(raw, place)
    place.check_keys(raw, kinds[:1])
    if kinds[0] == "normal" and closed:
        raise place.mistake("bounded with this rule, which goes to both ends", raw, "use { from, to }")
    return KINDS[kinds[0]](raw[kinds[0]], place.at(kinds[0]))


def _box(raw: Mapping[str, Any], place: Place) -> Quantiles:
    place.check_keys(raw, ("from", "to"), ("scale", *KINDS))  # of which it has none: these are suggested
    logarithmic = place.logarithmic(raw)
    low, high = place.interval(raw, logarithmic)
    if logarithmic:
        start, width = math.log(low), math.log(high) - math.log(low)
        return lambda unit: [rounded(value) for value in np.exp(start + width * unit).tolist()]
    return lambda unit: [rounded(value) for value in (low + (high - low) * unit).tolist()]


def _integers(raw: Any, place: Place) -> Quantiles:
    low, high = _interval(raw, place)
    if not (isinstance(low, int) and isinstance(high, int) and high - low < MOST_INTEGERS):
        raise place.mistake(f"{{ from, to }} of two integers fewer than {MOST_INTEGERS:,} apart", raw)
    if max(abs(low), abs(high)) > MOST_INTEGERS:
        raise place.mistake(f"{{ from, to }} of two integers of at most {MOST_INTEGERS:,}", raw)
    return lambda unit: [low + number for number in _numbers(unit, high - low + 1)]


def _interval(raw: Any, place: Place) -> tuple[int | float, int | float]:
    if not isinstance(raw, dict):
        raise place.mistake("{ from, to }", raw)
    place.check_keys(raw, ("from", "to"))
    return place.interval(raw)


def _normal(raw: Any, place: Place) -> Quantiles:
    if not isinstance(raw, dict):
        raise place.mistake("{ mean, std }", raw)
    place.check_keys(raw, ("mean", "std"))
    mean, std = place.number(raw, "mean"), place.number(raw, "std")
    if std <= 0:
        raise place.at("std").mistake("above 0", std)
    if not math.isfinite(abs(float(mean)) + FARTHEST * float(std)):
        raise place.mistake("{ mean, std } whose values are finite numbers", raw)
    return lambda unit: [
        rounded(value) for value in (mean + std * scipy.special.ndtri(np.clip(unit, SMALLEST, 1.0 - SMALLEST))).tolist()
    ]


def _choice(raw: Any, place: Place) -> Quantiles:
    if not isinstance(raw, list) or not raw:
        raise place.mistake("a list of at least one value", raw)
    return lambda unit: [raw[number] for number in _numbers(unit, len(raw))]


def _numbers(unit: Array, count: int) -> list[int]:
    """Numbers below `count`, each of which has an equal part of the unit interval."""
    # rules that are closed draw 1 too, which belongs to the last
    numbers: list[int] = np.floor(unit * count).astype(int).clip(0, count - 1).tolist()
    return numbers


KINDS: Mapping[str, Callable[[Any, Place], Quantiles]] = {
    "integers": _integers, "normal": _normal, "choice": _choice,
}  # fmt: skip
"""Distributions by the key that states them; without one it is a box."""
