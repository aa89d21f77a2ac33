"""Define the phases of a study: the pilot, which chooses parameters, and the main phase.

A phase may have a target precision.  The study then adds seeds to each setup until the confidence interval is narrow
enough.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Protocol

from evogt_study.errors import ParameterError, StudyError, shortened
from evogt_study.inference.intervals import MIN_UNITS
from evogt_study.inference.sequential import Goal
from evogt_study.schema.values import Value, is_number, labels, text_label
from evogt_study.schema.variables import CANDIDATE
from evogt_study.study.case_space import MAX_CASES, Axis, CaseSpace, Chosen, Points

if TYPE_CHECKING:  # readers of a result need the phases, but not pydantic
    from evogt_study.study.model import PilotTable, PrecisionTable
    from evogt_study.study.parameter_values import Declared

SEED = "seed"
Labels = tuple[str, ...]
"""Labels of a setup: one for each axis except the seed."""
Candidate = tuple[Value, ...]
"""A value for each parameter that is chosen."""
_PERCENT = re.compile(r"\s*([0-9.eE+-]+)\s*%\s*")


@dataclass(frozen=True, eq=False)
class Phase:
    """Cases that are computed together.

    choice: what their runs decide for later phases; None: nothing.  precision: target precision of each setup, which
    then has only the seeds that it needs; None: each setup has all seeds.  `space` does not contain the parameters that
    earlier phases choose.
    """

    name: str
    space: CaseSpace
    choice: Choice | None = None
    precision: Precision | None = None

    @property
    def deciding(self) -> tuple[str, ...]:
        """Variables of its runs that decide about later runs."""
        chosen = () if self.choice is None else (self.choice.minimise,)
        return chosen if self.precision is None else (*chosen, self.precision.variable)


# a protocol: results and operations need only this, and not the pilot
class Choice(Protocol):
    """Parameters that the finished runs of a phase choose together for the phases after it."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that are chosen."""

    @property
    def minimise(self) -> str:
        """The variable of the phase's runs that decides."""

    @property
    def better(self) -> str:
        """The direction of `minimise`, as it is declared."""

    @property
    def by(self) -> tuple[str, ...]:
        """The axes over which the choice is a table."""

    def candidates_at(self, key: tuple[str, ...]) -> tuple[Candidate, ...]:
        """The candidates at a point of `by`, given by its labels."""

    def first_candidates(self, space: CaseSpace) -> Chosen:
        """A stand-in for the choice, to look at a later phase's `space` before this one has run."""


@dataclass(frozen=True, eq=False)
class Pilot:
    """Choice of `parameters` on seeds that the study never uses: the candidate with the least mean of `minimise`.

    The mean is over the pilot seeds and over the axes that are not in `by`.  A candidate is a value for each of the
    parameters; `candidates` has the labels of the first axis in `by` as keys, or None if there is one list for all.
    better: declared direction of `minimise`; with "higher" the candidate with the largest mean is chosen, with
    "nearest T" the candidate with the least mean distance from T.  `space` holds the pilot's cases: the study's axes,
    the candidate, and the pilot's seeds.
    """

    parameters: tuple[str, ...]
    minimise: str
    by: tuple[str, ...]
    candidates: Mapping[str | None, tuple[Candidate, ...]]
    space: CaseSpace
    better: str = ""

    def candidates_at(self, key: tuple[str, ...]) -> tuple[Candidate, ...]:
        """The candidates at a point of `by`, given by its labels."""
        return self.candidates[None if None in self.candidates else key[0]]

    def first_candidates(self, space: CaseSpace) -> Chosen:
        """A stand-in for the choice, to look at the study's `space` before the pilot has run."""
        labels = [[text_label(value) for value in space.axis(name).values] for name in self.by]
        table = {key: self.candidates_at(key)[0] for key in itertools.product(*labels)}
        return Chosen(self.parameters, self.by, table)


def read_pilot(table: PilotTable, space: CaseSpace, declared: Declared, better: str = "") -> Pilot:
    """Check the section against the study's `space`.  Raises StudyError."""
    file = declared.file
    if CANDIDATE in declared.method.parameters:
        message = f"the parameter `{CANDIDATE}` must have another name in a study with a pilot, whose axis has this one"
        raise StudyError(f"{message} ({file}, pilot)")
    _check(table, space, declared)
    candidates = _candidates(table, space, declared)
    seeds = declared.values(SEED, table.seed_values, "pilot.seeds")
    # a choice on the study's own seeds would make its results look too good
    shared = sorted(set(seeds) & set(space.axis(SEED).values), key=str)
    if not seeds or shared:
        got = f"{', '.join(text_label(seed) for seed in shared[:5])} in both" if shared else "none"
        raise StudyError(f"`seeds` of the pilot must be different from the study's, got {got} ({file}, pilot.seeds)")
    pilot_space = _space(table, space, candidates, seeds)
    if pilot_space.size > MAX_CASES:
        raise StudyError(f"a pilot must have at most {MAX_CASES:,} cases, got {pilot_space.size:,} ({file}, pilot)")
    return Pilot(tuple(table.parameters), table.minimise, tuple(table.by), candidates, pilot_space, better)


def _check(table: PilotTable, space: CaseSpace, declared: Declared) -> None:
    """Check all of the section except the candidates.  Raises StudyError."""
    some = replace(space, formulas=())  # which may use a parameter that the pilot chooses
    resolved = map(some.resolved, some.representatives())
    first = next((values for values in resolved if values is not None), {})
    file, known = declared.file, declared.method.scalars(first)
    if SEED not in space.names:
        raise StudyError(f"a pilot must have a study with a `seed` axis, got {', '.join(space.names)} ({file}, axes)")
    outside = [name for name in table.by if name not in space.names or name == SEED]
    if outside or len(set(table.by)) != len(table.by):
        got = shortened(table.by)
        raise StudyError(f"`by` must name different axes other than seed, got {got} ({file}, pilot.by)")
    _check_parameters(table.parameters, some, declared)
    if known is not None and table.minimise not in known:
        raise StudyError(
            f"`minimise` must be one of {', '.join(known)}, got {shortened(table.minimise)} ({file}, pilot.minimise)"
        )


def _check_parameters(parameters: Sequence[str], space: CaseSpace, declared: Declared) -> None:
    """Raise StudyError unless the parameters to be chosen are different, known, and left to the pilot."""
    if not parameters or len(set(parameters)) != len(parameters):
        where = f"{declared.file}, pilot.parameter"
        raise StudyError(f"`parameter` must name different parameters, got {shortened(parameters)} ({where})")
    given = {"axes": (*space.names, *space.columns), "when": space.followers, "constants": declared.given}
    for parameter in parameters:
        declared.check_name(parameter, "pilot.parameter")
        for section, names in given.items():
            if parameter in names:
                where = f"{declared.file}, {section}.{parameter}"
                raise StudyError(f"`{parameter}` must be left to the pilot, got a value of its own ({where})")


def _candidates(table: PilotTable, space: CaseSpace, declared: Declared) -> dict[str | None, tuple[Candidate, ...]]:
    where = "pilot.candidates"
    if isinstance(table.candidates, list):
        return {None: _candidate_list(table, table.candidates, where, declared)}
    if not table.by:
        raise StudyError(f"`candidates` must be a list where `by` is empty ({declared.file}, {where})")
    axis = space.axis(table.by[0])
    wanted = [text_label(value) for value in axis.values]
    if set(table.candidates) != set(wanted):
        raise StudyError(
            f"`candidates` must have a list for each {axis.name} ({', '.join(wanted)}), "
            f"got {', '.join(table.candidates) or 'none'} ({declared.file}, {where})"
        )
    return {key: _candidate_list(table, raw, f"{where}.{key}", declared) for key, raw in table.candidates.items()}


def _candidate_list(table: PilotTable, raw: list[Any], where: str, declared: Declared) -> tuple[Candidate, ...]:
    if isinstance(table.parameter, str):
        return tuple((value,) for value in _numbers(table.parameter, raw, where, declared))
    names = table.parameters
    if not raw or not all(isinstance(each, list) and len(each) == len(names) for each in raw):
        wanted = f"lists of {len(names)} values, for {', '.join(names)}"
        raise StudyError(f"`candidates` must be {wanted}, got {shortened(raw)} ({declared.file}, {where})")
    columns = [declared.column(name, [each[i] for each in raw], f"{where}.{name}") for i, name in enumerate(names)]
    found = tuple(zip(*columns, strict=True))
    if len({tuple(map(text_label, each)) for each in found}) < len(found):
        raise StudyError(f"`candidates` must be different, got {shortened(raw)} ({declared.file}, {where})")
    return found


# numbers only, since the smaller candidate wins a tie
def _numbers(parameter: str, raw: list[Any], where: str, declared: Declared) -> tuple[Value, ...]:
    values = declared.values(parameter, raw, where)
    if not values or not all(map(is_number, values)):
        raise StudyError(f"`candidates` must be numbers, got {shortened(raw)} ({declared.file}, {where})")
    return values


def _space(
    table: PilotTable,
    space: CaseSpace,
    candidates: Mapping[str | None, tuple[Candidate, ...]],
    seeds: tuple[Value, ...],
) -> CaseSpace:
    """The study's axes with the candidate's number before the seed, and a table from that number to the candidate."""
    # The axis has the candidate's number, since each point of `by` may have its own candidates.  It is as long as the
    # longest list.  A shorter list has no entry in the table for the rest, so there is no case.
    numbers = tuple(range(max(len(values) for values in candidates.values())))
    others = tuple(axis for axis in space.axes if axis.name != SEED)
    axes = (*others, Axis(CANDIDATE, numbers, Points()), Axis(SEED, seeds))
    over = (CANDIDATE,) if None in candidates else (table.by[0], CANDIDATE)
    entries = {
        (() if key is None else (key,)) + (text_label(number),): candidate
        for key, known in candidates.items()
        for number, candidate in enumerate(known)
    }
    return replace(space, axes=axes, chosen=(Chosen(tuple(table.parameters), over, entries),))


def in_words(values: Iterable[Value]) -> str:
    """Join parameters or the values of a candidate: "6 and 40"."""
    return " and ".join(map(text_label, values))


@dataclass(frozen=True)
class Precision:
    """The goal for every setup, the variable, and for a ratio the axis and its two labels."""

    goal: Goal
    variable: str
    axis: str = ""
    pair: tuple[str, str] = ("", "")

    def first_seeds(self, space: CaseSpace) -> Chosen:
        """The seeds of the first batch, which every setup has."""
        return self.seeds(space, {})

    def seeds(self, space: CaseSpace, counts: Mapping[Labels, int]) -> Chosen:
        """The seeds of each setup: as many of the axis as `counts` says, else the first batch.

        The table has an entry for a planned seed.  Without an entry there is no case.
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
    """Check the section against the study's `space`, and add the seeds that a setup may need.

    The seeds of the axis are the first batch of every setup.  Later seeds follow the largest of them.
    Raises StudyError.
    """
    file = declared.file
    seeds = next((axis.values for axis in space.axes if axis.name == SEED), ())
    whole = [int(value) for value in labels(seeds) if isinstance(value, int) and not isinstance(value, bool)]
    if len(whole) < MIN_UNITS or len(whole) < len(seeds):
        message = f"`precision` must be of a study with a `seed` axis of at least {MIN_UNITS} integers"
        raise StudyError(f"{message}, got {len(seeds)} ({file}, axes.seed)")
    statistic, _, ratio = table.statistic.partition(" ")
    axis, pair = _pair(ratio.strip(), space, file) if statistic == "ratio" else ("", ("", ""))
    if ratio and statistic != "ratio":
        statistic = table.statistic
    half_width, relative = half_width_of(table.half_width, file)
    try:
        goal = Goal(statistic, half_width, relative, table.confidence, table.max_seeds, len(seeds))
    except ParameterError as error:
        raise StudyError(str(error.at(f"{file}, precision.{error.name}"))) from None
    # from the largest on, not from the last: the seeds of a setup have to be different
    more = range(max(whole) + 1, max(whole) + 1 + goal.max_seeds - len(seeds))
    longer = Axis(SEED, (*seeds, *declared.values(SEED, more, "precision.max_seeds")))
    axes = tuple(longer if each.name == SEED else each for each in space.axes)
    return Precision(goal, table.variable, axis, pair), replace(space, axes=axes)


def half_width_of(raw: str | float | int, file: str) -> tuple[float, bool]:
    """A half width, and whether it is relative, such as "10 %".  Raises StudyError."""
    try:
        percent = _PERCENT.fullmatch(raw) if isinstance(raw, str) else None
        return (float(percent[1]) / 100.0, True) if percent else (float(raw), False)
    except ValueError:
        message = f'`half_width` must be a number, or relative like "10 %", got {shortened(raw)}'
        raise StudyError(f"{message} ({file}, precision.half_width)") from None


def _pair(text: str, space: CaseSpace, file: str) -> tuple[str, tuple[str, str]]:
    """The axis of the two labels of "first/second", and the labels."""
    first, slash, second = (part.strip() for part in text.partition("/"))
    if slash and first != second:
        for axis in space.axes:
            for name, values in {axis.name: axis.values, **axis.parameters}.items():
                labels = list(map(text_label, values))
                if axis.name != SEED and {first, second} <= set(labels):
                    return axis.name, _points((first, second), name, labels, axis, file)
    message = (
        f'`statistic` must be mean, median, or "ratio A/B" of two labels of one axis, got {shortened("ratio " + text)}'
    )
    raise StudyError(f"{message} ({file}, precision.statistic)")


def _points(pair: tuple[str, str], name: str, labels: Sequence[str], axis: Axis, file: str) -> tuple[str, str]:
    """The labels, on the axis, of the two points at which a parameter has the labels in `pair`."""
    counts = {each: labels.count(each) for each in pair}
    for each, count in counts.items():
        if count > 1:
            message = f"`statistic` must be of labels that one point of {axis.name} has, got {name} = {each} at {count}"
            raise StudyError(
                f"{message} ({file}, precision.statistic); {name} in [axes] compares at each value of the others"
            )
    shown = [text_label(axis.values[labels.index(each)]) for each in pair]
    return shown[0], shown[1]
