"""The ``[precision]`` section: how well a number is to be known in every cell, and the seeds of the cells so far.

A cell is a point of the axes but for the seed; of a ratio also but for the axis of its two labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from evogt_study.errors import ParameterError, StudyError, shortened
from evogt_study.inference.intervals import FEWEST
from evogt_study.inference.sequential import Goal
from evogt_study.schema.values import Value, text_label
from evogt_study.study.case_space import Axis, CaseSpace, Chosen

if TYPE_CHECKING:  # of a result that is read no study file is
    from evogt_study.study.declared_values import Declared
    from evogt_study.study.study_file import PrecisionTable

SEED = "seed"
Labels = tuple[str, ...]
"""Labels of a point of the axes but for the seed."""
_PERCENT = re.compile(r"\s*([0-9.eE+-]+)\s*%\s*")


@dataclass(frozen=True)
class Precision:
    """The goal in every cell, the variable, and for a ratio the axis and its two labels."""

    goal: Goal
    variable: str
    axis: str = ""
    pair: tuple[str, str] = ("", "")

    def first_seeds(self, space: CaseSpace) -> Chosen:
        """The seeds of the first batch, which every cell has."""
        return self.seeds(space, {})

    def seeds(self, space: CaseSpace, counts: Mapping[Labels, int]) -> Chosen:
        """The seeds that cells have when each has so many of the axis's first; those not named have the first batch.

        The table gives a seed its own value where it is planned, and none elsewhere, where there is no case then.
        """
        others = [axis for axis in space.axes if axis.name != SEED]
        seeds = space.axis(SEED).values
        table: dict[Labels, tuple[Value, ...]] = {}
        for values in product(*(axis.values for axis in others)):
            labels = tuple(map(text_label, values))
            for seed in seeds[: counts.get(labels, self.goal.first)]:
                table[(*labels, text_label(seed))] = (seed,)
        return Chosen((SEED,), (*(axis.name for axis in others), SEED), table)


def read_precision(table: PrecisionTable, space: CaseSpace, declared: Declared) -> tuple[Precision, CaseSpace]:
    """Check the section against the study's `space`, and give the space the seeds that cells may need.

    The axis's seeds are the first batch of every cell; those that follow the last of them are added as needed.  Raises
    StudyError.
    """
    file = declared.file
    seeds = next((axis.values for axis in space.axes if axis.name == SEED), ())
    whole = [value for value in seeds if isinstance(value, int) and not isinstance(value, bool)]
    if len(whole) < FEWEST or len(whole) < len(seeds):
        told = f"`precision` must be of a study with a `seed` axis of at least {FEWEST} integers"
        raise StudyError(f"{told}, got {len(seeds)} ({file}, axes.seed)")
    of, _, ratio = table.of.partition(" ")
    axis, pair = _pair(ratio.strip(), space, file) if of == "ratio" else ("", ("", ""))
    if ratio and of != "ratio":
        of = table.of
    half_width, relative = half_width_of(table.half_width, file)
    try:
        goal = Goal(of, half_width, relative, table.confidence, table.at_most, len(seeds))
    except ParameterError as error:
        raise StudyError(str(error.at(f"{file}, precision.{error.name}"))) from None
    # from the largest on, not from the last: the seeds of a cell have to be different
    more = range(max(whole) + 1, max(whole) + 1 + goal.at_most - len(seeds))
    longer = Axis(SEED, (*seeds, *declared.values(SEED, more, "precision.at_most")))
    axes = tuple(longer if each.name == SEED else each for each in space.axes)
    return Precision(goal, table.variable, axis, pair), replace(space, axes=axes)


def half_width_of(raw: str | float | int, file: str) -> tuple[float, bool]:
    """A half width, and whether it is in parts of the number: "10 %".  Raises StudyError."""
    try:
        percent = _PERCENT.fullmatch(raw) if isinstance(raw, str) else None
        return (float(percent[1]) / 100.0, True) if percent else (float(raw), False)
    except ValueError:
        told = f'`half_width` must be a number, or relative like "10 %", got {shortened(raw)}'
        raise StudyError(f"{told} ({file}, precision.half_width)") from None


def _pair(text: str, space: CaseSpace, file: str) -> tuple[str, tuple[str, str]]:
    """The axis of the two labels of "first/second", and the labels."""
    first, slash, second = (part.strip() for part in text.partition("/"))
    if slash and first != second:
        for axis in space.axes:
            for name, values in {axis.name: axis.values, **axis.parameters}.items():
                labels = list(map(text_label, values))
                if axis.name != SEED and {first, second} <= set(labels):
                    return axis.name, _points((first, second), name, labels, axis, file)
    told = f'`of` must be mean, median, or "ratio A/B" of two labels of one axis, got {shortened("ratio " + text)}'
    raise StudyError(f"{told} ({file}, precision.of)")


def _points(pair: tuple[str, str], name: str, labels: Sequence[str], axis: Axis, file: str) -> tuple[str, str]:
    """The labels, on the axis, of the only points at which a parameter has the two of `pair`."""
    counts = {each: labels.count(each) for each in pair}
    for each, count in counts.items():
        if count > 1:
            told = f"`of` must be of labels that one point of {axis.name} has, got {name} = {each} at {count}"
            raise StudyError(f"{told} ({file}, precision.of); {name} in [axes] compares at each value of the others")
    shown = [text_label(axis.values[labels.index(each)]) for each in pair]
    return shown[0], shown[1]
