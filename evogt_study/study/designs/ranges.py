"""Evenly spaced values of an axis, on a linear or logarithmic scale."""

from __future__ import annotations

import math
from typing import Any

from evogt_study.study.case_space import MAX_CASES
from evogt_study.study.designs.place import Place

# exp and log of different processors differ in the last bits of a double: in 12 digits they agree, and a study has the
# same runs everywhere
DIGITS = 12
"""Significant digits of values that are computed by exponentials, logarithms or quantiles."""
SLACK = 1e-9
"""Part of a step by which rounding may leave `to` out of reach: 10 * 0.1 is 1."""


def rounded(value: float) -> float:
    """`value` to `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS}g}") + 0.0  # -0.0 is 0.0, as in canonical values


def spaced(raw: dict[str, Any], place: Place) -> list[int | float]:
    """The values of ``{ from, to, count, scale }`` or ``{ from, to, step }``; integers where all are whole.

    Raises StudyError.
    """
    if "step" in raw:
        place.check_keys(raw, ("from", "to", "step"))
        return _stepped(raw, place)
    place.check_keys(raw, ("from", "to", "count"), ("scale",))
    logarithmic = place.logarithmic(raw)
    low, high = place.interval(raw, logarithmic)
    count = raw["count"]
    if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= MAX_CASES:
        wanted = f"an integer from 2 to {MAX_CASES:,}"
        raise place.at("count").mistake(wanted, count, "one value belongs in [constants]")
    parts = [number / (count - 1) for number in range(count)]
    inner = [_between(low, high, part, logarithmic) for part in parts[1:-1]]
    # the ends as they are written: computed they would be rounded
    return _whole([low, *inner, high], whole=isinstance(low, int) and isinstance(high, int))


def _between(low: float, high: float, part: float, logarithmic: bool) -> float:
    if logarithmic:
        return rounded(math.exp(math.log(low) + part * (math.log(high) - math.log(low))))
    return low + part * (high - low)


def _stepped(raw: dict[str, Any], place: Place) -> list[int | float]:
    low, high = place.interval(raw)
    step = place.number(raw, "step")
    if step <= 0:
        raise place.at("step").mistake("above 0", step)
    steps = (high - low) / step + SLACK
    if steps >= MAX_CASES:
        raise place.at("step").mistake(f"at least {(high - low) / MAX_CASES:g}, for {MAX_CASES:,} values", step)
    whole = all(isinstance(number, int) for number in (low, high, step))
    return _whole([low + number * step for number in range(int(steps) + 1)], whole)


def _whole(values: list[int | float], whole: bool) -> list[int | float]:
    """The values as integers, if the ends are and all are whole up to rounding; else all as floats."""
    near = [round(value) for value in values]
    if whole and all(abs(value - integer) <= SLACK for value, integer in zip(values, near, strict=True)):
        return list(near)
    return [float(value) for value in values]
