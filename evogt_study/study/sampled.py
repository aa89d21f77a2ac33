"""Draw the points of a ``[[sample]]`` section: in the unit cube by a rule, then quantiles of distributions."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # imports its parts when they are first used: `stats` takes half a second, which only samples need

from evogt_study.errors import AccuracyWarning, warn
from evogt_study.study.case_space import MAX_CASES, Axis
from evogt_study.study.model import SampleTable
from evogt_study.study.parameter_values import Declared, SourceLocation, list_values, round_digits

Array = npt.NDArray[np.float64]
Quantiles = Callable[[Array], list[Any]]
"""Values at numbers of the unit interval."""
_KINDS = ("integers", "normal", "choice")
"""Keys of distributions.  Without one of them a distribution is a box."""
OPTIONS = ("second_order", "levels")
"""Keys that only some rules have."""
SAMPLES = int.from_bytes(b"sample", "big")
"""Spawn key of the streams of samples."""
_SMALLEST = 2.0**-32
"""Smallest distance from 0 and 1 for unbounded quantiles.  Sobol numbers are multiples of 2^-30 and may be 0."""
FARTHEST = 7.0
"""Largest normal value, in standard deviations.  The quantile of `_SMALLEST` is -6.2."""
MOST_INTEGERS = 2**53
"""Largest number of different integers.  Numbers in the unit interval have 53 bits."""
FORMS = (
    '{ from, to }, { from, to, scale = "log" }, { integers = { from, to } }, { normal = { mean, std } } '
    "or { choice = [...] }"
)


def read_sample(table: SampleTable, declared: Declared, place: SourceLocation) -> Axis:
    """Return the points of a sample.  Raises StudyError."""
    rule, parameters = _find_rule(table, place), table.parameters
    if not parameters:
        raise place.error(f"`{table.name}` must have at least one parameter, got none", "say gamma = { ... }")
    options = {name: getattr(table, name) for name in rule.options}
    each = rule.per_count(len(parameters), **options)
    count = table.count * each
    if (table.start + table.count) * each > MAX_CASES:
        start = f", `start` = {table.start:,} included" if table.start else ""
        raise place.at("count").mistake(f"at most {MAX_CASES // each:,}{start}", table.count)
    # before anything is drawn
    quantiles = {name: read_distribution(raw, place.at(name), rule.closed) for name, raw in parameters.items()}
    # drawn from the first point on and cut, so that the points after `start` agree with the whole sample
    points = rule.draw(len(parameters), table.start + table.count, table.sample_seed, **options)[-count:]
    columns = {
        name: declared.column(name, values(points[:, number]), place.at(name))
        for number, (name, values) in enumerate(quantiles.items())
    }
    first = table.start * each
    about = {"kind": "sample", "rule": table.rule, "count": table.count, "sample_seed": table.sample_seed}
    about |= {"start": table.start} if table.start else {}
    description = json.dumps({**about, **options, "parameters": parameters}, default=str)
    return Axis(table.name, tuple(range(first, first + count)), columns, first, description)


def _find_rule(table: SampleTable, place: SourceLocation) -> Rule:
    """Return the rule and check its options.  Raises StudyError."""
    if table.rule not in RULES:
        raise place.at("rule").mistake(f"one of {', '.join(RULES)}", table.rule)
    rule = RULES[table.rule]
    for name in OPTIONS:
        if name in table.model_fields_set and name not in rule.options:
            raise place.at(name).error(f"`{name}` must be left out with the rule {table.rule}")
    if table.start and not rule.nested:
        raise place.at("start").mistake(f"0 with the rule {table.rule}, whose points belong together", table.start)
    if table.levels % 2:
        raise place.at("levels").mistake("even, so that steps of half the levels fit", table.levels)
    return rule


def warn_of_count(table: SampleTable, place: SourceLocation) -> None:
    """Give a `AccuracyWarning` for a count that leaves a sequence unbalanced."""
    end = table.start + table.count
    if RULES[table.rule].balanced and end & (end - 1):
        above = 2 ** end.bit_length()
        warn(
            f"`count` of the sample {table.name} is {table.count:,}: points of a Sobol sequence are balanced if "
            f"their number is a power of two, such as {above // 2:,} or {above:,} ({place.at('count')})",
            AccuracyWarning,
        )


@dataclass(frozen=True)
class Rule:
    """A rule: `draw` returns the points for (dimension, count, seed, **options), `per_count` points for each count.

    nested: a larger count begins with the points of a smaller one.  balanced: the count should be a power of two.
    closed: values may be 0 or 1.
    """

    draw: Callable[..., Array]
    nested: bool = True
    balanced: bool = False
    closed: bool = False
    options: tuple[str, ...] = ()
    per_count: Callable[..., int] = lambda dimension: 1


def make_sample_generator(seed: int) -> np.random.Generator:
    """Return the generator of a sample.  It differs from ``default_rng(seed)``, which the runs of the study may use."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(SAMPLES,)))


def _sobol(dimension: int, count: int, seed: int) -> Array:
    """Return points (count, dimension) of a Sobol sequence, scrambled (Owen by linear matrices and shifts: SciPy)."""
    # a power of two, then cut: SciPy warns of other numbers, and `warn_of_count` does this once
    engine = scipy.stats.qmc.Sobol(dimension, rng=make_sample_generator(seed))
    points: Array = engine.random_base2(max(count - 1, 1).bit_length())[:count]
    return points


def _latin_hypercube(dimension: int, count: int, seed: int) -> Array:
    """Return a nested Latin hypercube: if `count` is even, its first half is a Latin hypercube too, and so on.

    It begins with the odd part of `count` and doubles the number: each point is in one interval of half the width, and
    the new points fill the others in a random order (Sallaberry, Helton & Hora 2008).
    """
    rng = make_sample_generator(seed)
    size = count // (count & -count)
    points: Array = scipy.stats.qmc.LatinHypercube(dimension, rng=rng).random(size)
    while size < count:
        # a point may be 1: the sum of an interval and a number below 1 is rounded
        used = np.floor(points * (2 * size)).astype(int).clip(0, 2 * size - 1)
        free = np.stack([np.setdiff1d(np.arange(2 * size), along) for along in used.T])
        added = (rng.permuted(free, axis=1).T + rng.random((size, dimension))) / (2 * size)
        points, size = np.concatenate([points, added]), 2 * size
    return points


def _saltelli(dimension: int, count: int, seed: int, second_order: bool = False) -> Array:
    """Return for each of `count` Sobol points (a, b) in twice the dimension: a, then a with one coordinate of b each,
    then b.

    second_order: also b with one coordinate of a each, before b.  The order is as in SALib (Saltelli 2002).
    """
    base = _sobol(2 * dimension, count, seed)
    a, b = base[:, None, :dimension], base[:, None, dimension:]
    one = np.eye(dimension, dtype=bool)
    blocks = [a, np.where(one, b, a), *([np.where(one, a, b)] if second_order else []), b]
    return np.concatenate(blocks, axis=1).reshape(-1, dimension)


def _morris(dimension: int, count: int, seed: int, levels: int = 4) -> Array:
    """`count` trajectories of Morris (1991): every coordinate moves once by p/(2(p - 1)), with p levels."""
    # trajectory by trajectory, so that a larger count begins with the trajectories of a smaller one
    drawn = make_sample_generator(seed).random((count, 3, dimension))
    order, down = np.argsort(drawn[:, 0], axis=1), drawn[:, 1] < 0.5
    lower = np.floor(drawn[:, 2] * (levels // 2))
    # argsort of an order is its inverse: the number of the step at which each coordinate moves
    moved = np.arange(dimension + 1)[:, None] > np.argsort(order, axis=1)[:, None, :]  # (count, d + 1, d)
    upper = moved != down[:, None, :]
    points: Array = (lower[:, None, :] + upper * (levels // 2)) / (levels - 1)
    return points.reshape(-1, dimension)


RULES: Mapping[str, Rule] = {
    "sobol": Rule(_sobol, balanced=True),
    "halton": Rule(
        lambda dimension, count, seed: scipy.stats.qmc.Halton(dimension, rng=make_sample_generator(seed)).random(count)
    ),
    "latin_hypercube": Rule(_latin_hypercube, nested=False),
    "random": Rule(lambda dimension, count, seed: make_sample_generator(seed).random((count, dimension))),
    "saltelli": Rule(
        _saltelli, balanced=True, options=("second_order",),
        per_count=lambda dimension, second_order: (2 if second_order else 1) * dimension + 2,
    ),
    "morris": Rule(
        _morris, closed=True, options=("levels",), per_count=lambda dimension, levels: dimension + 1
    ),
}  # fmt: skip


def read_distribution(raw: Any, place: SourceLocation, closed: bool) -> Quantiles:
    """Return the quantiles of a distribution in a study file.  closed: 0 and 1 are drawn.  Raises StudyError."""
    if not isinstance(raw, dict):
        raise place.mistake(FORMS, raw, "one value belongs in [constants]")
    kind = next((name for name in _KINDS if name in raw), "")
    if not kind:  # a box; the message can suggest one of the kinds
        place.check_keys(raw, ("from", "to"), ("scale", *_KINDS))
        low, high, is_log = place.interval(raw)
        start, width = (math.log(low), math.log(high) - math.log(low)) if is_log else (low, high - low)
        scale = np.exp if is_log else np.positive
        return lambda unit: [round_digits(value) for value in scale(start + width * unit).tolist()]
    place.check_keys(raw, [kind])
    given, inside = raw[kind], place.at(kind)
    if kind == "choice":
        values = list_values(given)
        if not values:
            raise inside.mistake("a list of at least one value", given)
        return lambda unit: [values[number] for number in _number_parts(unit, len(values))]
    keys = ("mean", "std") if kind == "normal" else ("from", "to")
    if not isinstance(given, dict):
        raise inside.mistake(f"{{ {', '.join(keys)} }}", given)
    inside.check_keys(given, keys)
    if kind == "integers":
        low, high, _ = inside.interval(given)
        if not (isinstance(low, int) and isinstance(high, int)) or high - low >= MOST_INTEGERS:
            raise inside.mistake(f"{{ from, to }} of two integers fewer than {MOST_INTEGERS:,} apart", given)
        first, count = low, high - low + 1
        if max(abs(low), abs(high)) > MOST_INTEGERS:
            raise inside.mistake(f"{{ from, to }} of two integers of at most {MOST_INTEGERS:,}", given)
        return lambda unit: [first + number for number in _number_parts(unit, count)]
    if closed:
        raise place.mistake("bounded with this rule, which goes to both ends", raw, "use { from, to }")
    mean, std = inside.number(given, "mean"), inside.number(given, "std")
    if std <= 0:
        raise inside.at("std").mistake("above 0", std)
    if not math.isfinite(abs(float(mean)) + FARTHEST * float(std)):
        raise inside.mistake("{ mean, std } whose values are finite numbers", given)
    return lambda unit: [
        round_digits(value)
        for value in (mean + std * scipy.special.ndtri(np.clip(unit, _SMALLEST, 1.0 - _SMALLEST))).tolist()
    ]


def _number_parts(unit: Array, count: int) -> list[int]:
    """Return integers below `count`.  Each has an equal part of the unit interval."""
    # rules that are closed draw 1 too, which belongs to the last
    numbers: list[int] = np.floor(unit * count).astype(int).clip(0, count - 1).tolist()
    return numbers
