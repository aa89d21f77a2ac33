"""Define the phases of a study, the choice of the pilot, and the number of seeds for a target precision.

For equal means, the pilot chooses the smaller candidate.  A target precision only adds seeds, in the order of the seed
axis.  So the plan of a resumed study does not depend on when the study stopped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ParameterError, PilotError, StudyError, shorten
from evogt_study.inference.intervals import MIN_UNITS
from evogt_study.inference.sequential import Decision, Goal, decide
from evogt_study.schema.values import Value, is_number, make_coordinate, text_label, to_canonical
from evogt_study.schema.variables import CANDIDATE, COORDINATES, Status, to_losses
from evogt_study.study.case_space import MAX_CASES, Axis, CaseSpace, ParameterTable

if TYPE_CHECKING:  # readers of a result need the phases, but not pydantic
    import xarray as xr

    from evogt_study.results.table import RunTable
    from evogt_study.study.model import PilotTable, PrecisionTable
    from evogt_study.study.reading import ParameterReader, SourceLocation

SEED = "seed"
Labels = tuple[str, ...]
"""Values of a setup as strings, one for each axis except the seed."""
Candidate = tuple[Value, ...]
"""One value for each parameter that the pilot chooses."""
SEEDS, HALF_WIDTH, REASON = "precision_seeds", "precision_half_width", "precision_reason"
"""Names of coordinates with the number of seeds, the half width and the reason to stop of each setup."""
_PERCENT = re.compile(r"\s*([0-9.eE+-]+)\s*%\s*")


@dataclass(frozen=True, eq=False)
class Phase:
    """The pilot or the main phase of a study.  `space` does not contain the parameters that earlier phases choose."""

    name: str
    space: CaseSpace
    choice: Pilot | None = None
    precision: Precision | None = None

    @property
    def deciding_variables(self) -> tuple[str, ...]:
        """Variables whose values decide which runs follow."""
        chosen = () if self.choice is None else (self.choice.minimise,)
        return chosen if self.precision is None else (*chosen, self.precision.variable)


@dataclass(frozen=True, eq=False)
class Pilot:
    """Choice of `parameters`: the pilot selects the candidate with the best mean of `minimise`.

    The mean is over the pilot seeds, which the main phase does not use, and over the axes that are not in `by`.  The
    keys of `candidates` are the values of the first axis in `by`, or None for one common list.  `space` contains the
    cases of the pilot.
    """

    parameters: tuple[str, ...]
    minimise: str
    by: tuple[str, ...]
    candidates: Mapping[str | None, tuple[Candidate, ...]]
    space: CaseSpace
    better: str = ""

    def find_candidates(self, key: tuple[str, ...]) -> tuple[Candidate, ...]:
        """Return the candidates for one combination of values of the axes `by`."""
        return self.candidates[None if None in self.candidates else key[0]]

    def choose_first_candidates(self, space: CaseSpace) -> ParameterTable:
        """Return the first candidates as a provisional choice before the pilot runs."""
        labels = [[text_label(value) for value in space.axis(name).values] for name in self.by]
        table = {key: self.find_candidates(key)[0] for key in product(*labels)}
        return ParameterTable(self.parameters, self.by, table)


def read_pilot(
    table: PilotTable, space: CaseSpace, declared: ParameterReader, constants: Collection[str], better: str
) -> Pilot:
    """Read the ``[pilot]`` section and check it against the main phase.  Raises StudyError."""
    place, by, parameters = declared.locate("pilot"), table.by, table.parameters
    if CANDIDATE in declared.method.parameters:
        message = f"rename the parameter `{CANDIDATE}`, because the pilot has an axis of this name"
        raise place.error(message)
    if SEED not in space.names:
        axes = ", ".join(space.names)
        raise declared.locate("axes").error(f"a study with a pilot must have a `seed` axis, got {axes}")
    if len({*by}) != len(by) or not {*by} <= {*space.names} - {SEED}:
        raise place.at("by").error(f"`by` must name different axes other than seed, got {shorten(by)}")
    space_without_formulas = replace(space, formulas=())  # which may use a parameter that the pilot chooses
    if not parameters or len({*parameters}) != len(parameters):
        message = f"`parameter` must name different parameters, got {shorten(parameters)}"
        raise place.at("parameter").error(message)
    given = {"axes": (*space.names, *space.columns), "when": space_without_formulas.dependent_parameters}
    given["constants"] = tuple(constants)
    for name in parameters:
        declared.check_name(name, place.at("parameter"))
        for section in (section for section, names in given.items() if name in names):
            message = f"`{name}` must have no other value, because the pilot chooses it"
            raise declared.locate(f"{section}.{name}").error(message)
    points = map(space_without_formulas.resolve, space_without_formulas.representatives())
    known = declared.method.list_scalar_variables(next(filter(None, points), {}))
    if known is not None and table.minimise not in known:
        raise place.at("minimise").mistake(f"one of {', '.join(known)}", table.minimise)
    candidates = _read_candidates(table, space, declared)
    seeds = declared.read_values(SEED, table.seed_values, place.at("seeds"))
    # a choice on the study's own seeds would make its results look too good
    shared = sorted(set(seeds) & set(space.axis(SEED).values), key=str)
    if not seeds or shared:
        got = f"{', '.join(text_label(seed) for seed in shared[:5])} in both" if shared else "none"
        raise place.at("seeds").error(f"the `seeds` of the pilot must differ from the seeds of the study, got {got}")
    # The axis has the candidate's number, since each point of `by` may have its own candidates.  It is as long as the
    # longest list.  A shorter list has no entry in the table for the rest, so there is no case.
    numbers = tuple(range(max(len(values) for values in candidates.values())))
    others = tuple(axis for axis in space.axes if axis.name != SEED)
    entries = {
        (() if key is None else (key,)) + (text_label(number),): candidate
        for key, listed in candidates.items()
        for number, candidate in enumerate(listed)
    }
    over = (CANDIDATE,) if None in candidates else (by[0], CANDIDATE)
    chosen = ParameterTable(tuple(parameters), over, entries)
    pilot_space = replace(space, axes=(*others, Axis(CANDIDATE, numbers, {}), Axis(SEED, seeds)), chosen=(chosen,))
    if pilot_space.size > MAX_CASES:
        raise place.error(f"a pilot must have at most {MAX_CASES:,} cases, got {pilot_space.size:,}")
    return Pilot(tuple(parameters), table.minimise, tuple(by), candidates, pilot_space, better)


def _read_candidates(
    table: PilotTable, space: CaseSpace, declared: ParameterReader
) -> dict[str | None, tuple[Candidate, ...]]:
    place, names = declared.locate("pilot.candidates"), table.parameters
    if isinstance(table.candidates, dict):
        if not table.by:
            raise place.error("`candidates` must be a list if `by` is empty")
        axis = space.axis(table.by[0])
        wanted = [text_label(value) for value in axis.values]
        if set(table.candidates) != set(wanted):
            message = f"`candidates` must have a list for each {axis.name} ({', '.join(wanted)})"
            raise place.error(f"{message}, got {', '.join(table.candidates) or 'none'}")
    found: dict[str | None, tuple[Candidate, ...]] = {}
    for key, raw in table.candidates.items() if isinstance(table.candidates, dict) else [(None, table.candidates)]:
        here = place if key is None else place.at(key)
        if isinstance(table.parameter, str):
            values = declared.read_values(table.parameter, raw, here)
            # for equal means, the pilot chooses the smaller candidate
            if not values or not all(map(is_number, values)):
                raise here.mistake("numbers", raw, name="candidates")
            found[key] = tuple((value,) for value in values)
            continue
        if not raw or not all(isinstance(each, list) and len(each) == len(names) for each in raw):
            raise here.mistake(f"lists of {len(names)} values, for {', '.join(names)}", raw, name="candidates")
        columns = [declared.read_column(name, [each[i] for each in raw], here.at(name)) for i, name in enumerate(names)]
        found[key] = tuple(zip(*columns, strict=True))
        if len({tuple(map(text_label, each)) for each in found[key]}) < len(raw):
            raise here.mistake("different", raw, name="candidates")
    return found


def join_values(values: Iterable[Value]) -> str:
    """Join values in the form "6 and 40"."""
    return " and ".join(map(text_label, values))


@dataclass(frozen=True)
class Precision:
    """Target precision of a variable in every setup.  For a ratio, `pair` contains two values of `axis`."""

    goal: Goal
    variable: str
    axis: str = ""
    pair: tuple[str, str] = ("", "")

    def seeds(self, space: CaseSpace, counts: Mapping[Labels, int]) -> ParameterTable:
        """Return the first seeds of each setup, as many as in `counts`, or the first batch for other setups."""
        others, seeds = [axis for axis in space.axes if axis.name != SEED], space.axis(SEED).values
        table: dict[Labels, tuple[Value, ...]] = {
            (*labels, text_label(seed)): (seed,)
            for _, labels in _iterate_setups([list(map(text_label, axis.values)) for axis in others])
            for seed in seeds[: counts.get(labels, self.goal.first)]
        }
        return ParameterTable((SEED,), (*(axis.name for axis in others), SEED), table)


def read_precision(table: PrecisionTable, space: CaseSpace, declared: ParameterReader) -> tuple[Precision, CaseSpace]:
    """Read the ``[precision]`` section and extend the seed axis to `max_seeds`.  Raises StudyError."""
    place = declared.locate("precision")
    seeds = next((axis.values for axis in space.axes if axis.name == SEED), ())
    integer_seeds = [int(each) for each in make_coordinate(seeds) if type(each) is int]
    if len(integer_seeds) < MIN_UNITS or len(integer_seeds) < len(seeds):
        message = f"a study with `precision` must have a `seed` axis of at least {MIN_UNITS} integers"
        raise declared.locate("axes.seed").error(f"{message}, got {len(seeds)}")
    statistic, _, ratio = table.statistic.partition(" ")
    is_ratio = statistic == "ratio"
    axis, pair = _parse_ratio(ratio.strip(), space, place.at("statistic")) if is_ratio else ("", ("", ""))
    name, width = statistic if is_ratio else table.statistic, table.half_width
    percent = _PERCENT.fullmatch(width) if isinstance(width, str) else None
    try:
        half_width = float(percent[1]) / 100.0 if percent else float(width)
        goal = Goal(name, half_width, percent is not None, table.confidence, table.max_seeds, len(seeds))
    except ValueError as error:
        if not isinstance(error, ParameterError):
            raise place.at("half_width").mistake('a number, or a percentage such as "10 %"', width) from None
        raise StudyError(str(error.at(str(place.at(error.name))))) from None
    # new seeds follow the largest seed, which may not be the last, so that all seeds of a setup differ
    more = range(max(integer_seeds) + 1, max(integer_seeds) + 1 + goal.max_seeds - len(seeds))
    extended_axis = Axis(SEED, (*seeds, *declared.read_values(SEED, more, place.at("max_seeds"))))
    axes = tuple(extended_axis if each.name == SEED else each for each in space.axes)
    return Precision(goal, table.variable, axis, pair), replace(space, axes=axes)


def _parse_ratio(text: str, space: CaseSpace, place: SourceLocation) -> tuple[str, tuple[str, str]]:
    """Return the axis of a ratio "first/second" and the two axis values."""
    first, slash, second = (part.strip() for part in text.partition("/"))
    for axis in space.axes if slash and first != second else ():
        for name, values in {axis.name: axis.values, **axis.parameters}.items():
            known = list(map(text_label, values))
            if axis.name == SEED or not {first, second} <= set(known):
                continue
            for each in (first, second):
                if (count := known.count(each)) > 1:
                    wanted = f"`statistic` must name values that occur once along {axis.name}"
                    remedy = f"vary {name} in [axes] to compare its values in each setup"
                    raise place.error(f"{wanted}, got {name} = {each} at {count} points", remedy)
            one, other = (text_label(axis.values[known.index(each)]) for each in (first, second))
            return axis.name, (one, other)
    raise place.mistake('mean, median, or "ratio A/B" of two values of one axis', f"ratio {text}")


# --- decisions from finished runs -------------------------------------------------------------------------------------


def _numbers(name: str, table: RunTable) -> npt.NDArray[np.float64] | None:
    """Return a number for each case, or None if the variable has no numbers.  A run that is not ok has NaN."""
    column = table.columns.get(name)
    if column is None or not column.is_number:
        return None
    return np.where(column.present & (table.status == Status.ok), column.load().values, np.nan).astype(float)


# mean, not nanmean: a missing run must not make its candidate look better.  A diverged run has an infinite value.
def choose_parameters(phase: Phase, table: RunTable) -> tuple[ParameterTable, ...]:
    """Choose parameters for later phases from the finished runs of one phase.

    Raises PilotError if a point has no candidate whose runs are all ok.
    """
    if (pilot := phase.choice) is None:
        return ()
    most = f". The most frequent message is: {message}" if (message := table.commonest_message()) else ""
    measured = _numbers(pilot.minimise, table)
    if measured is None:
        reason = f"the runs returned no number of this name (returned: {', '.join(sorted(table.columns)) or 'none'})"
        if pilot.minimise in table.columns:
            reason = f"it is {table.shapes[pilot.minimise, False]}, not a number"
        raise PilotError(f"the pilot cannot minimise `{pilot.minimise}`: {reason}{most}")
    losses = np.where(table.status == Status.diverged, np.inf, to_losses(measured, pilot.better))
    space, losses = table.plan.space, losses.reshape(table.plan.space.shape)
    over = tuple(axis for axis, name in enumerate(space.names) if name not in (*pilot.by, CANDIDATE))
    means = np.mean(losses, axis=over)  # NaN where any run is missing; axes left: `by` in axis order, then candidate
    order = [name for name in space.names if name in pilot.by]
    choice: dict[tuple[str, ...], Candidate] = {}
    for position in np.ndindex(means.shape[:-1]):
        at = {name: text_label(space.axis(name).values[i]) for name, i in zip(order, position, strict=True)}
        key = tuple(at[name] for name in pilot.by)
        candidates = pilot.find_candidates(key)
        usable = [
            (float(mean), float(each[0]) if len(each) == 1 else 0.0, number)  # type: ignore[arg-type]  # checked when read
            for number, (each, mean) in enumerate(zip(candidates, means[position], strict=False))
            if np.isfinite(mean)
        ]
        if not usable:
            wanted = f"`{join_values(pilot.parameters)}`" + " for " * bool(at)
            wanted += ", ".join(f"{name} = {label}" for name, label in at.items())
            reason = f"each of the {len(candidates)} candidates has a run that is not ok{most}"
            raise PilotError(f"the pilot cannot choose {wanted}: {reason}")
        choice[key] = candidates[min(usable)[2]]
    return (ParameterTable(pilot.parameters, pilot.by, choice),)


def decide_setups(precision: Precision, table: RunTable) -> dict[Labels, Decision]:
    """Return the decision of `decide` for each setup.  The two setups of a ratio share their decision."""
    space, numbers = table.plan.space, _numbers(precision.variable, table)
    seed = space.names.index(SEED)
    # a failed run is finished without a value, so that a setup with only failures does not need seeds without end
    both = (np.full(table.size, np.nan) if numbers is None else numbers, table.status != Status.not_run)
    values, there = (np.moveaxis(each.reshape(space.shape), seed, -1) for each in both)
    shown = [list(map(text_label, axis.values)) for axis in space.axes if axis.name != SEED]
    at = [name for name in space.names if name != SEED].index(precision.axis) if precision.axis else None
    found: dict[Labels, Decision] = {}
    for place, labels in _iterate_setups(shown):
        if at is None:
            # up to the first seed that is not finished: decisions use the seeds in order
            found[labels] = decide(values[place][: there[place].cumprod().sum()], precision.goal)
        elif labels[at] == precision.pair[0]:
            places = [(*place[:at], shown[at].index(label), *place[at + 1 :]) for label in precision.pair]
            count = min(there[each].cumprod().sum() for each in places)
            made = decide(np.stack([values[each][:count] for each in places]), precision.goal)
            found |= {(*labels[:at], label, *labels[at + 1 :]): made for label in precision.pair}
    return found


def _iterate_setups(labels: Sequence[Sequence[str]]) -> Iterator[tuple[tuple[int, ...], Labels]]:
    """Yield the position and the axis values of each setup.  `labels` has the values of each axis."""
    for place in np.ndindex(*map(len, labels)):
        yield place, tuple(own[i] for own, i in zip(labels, place, strict=True))


def precision_coordinates(precision: Precision, table: RunTable) -> dict[str, Any]:
    """Return coordinates with the number of seeds, half width and reason to stop of each setup."""
    others = [axis for axis in table.plan.space.axes if axis.name != SEED]
    shape, made = tuple(len(axis.values) for axis in others), decide_setups(precision, table)
    seeds, half, reason = np.zeros(shape, np.int64), np.full(shape, np.nan), np.full(shape, "", object)
    for place, labels in _iterate_setups([list(map(text_label, axis.values)) for axis in others]):
        if labels in made:
            seeds[place], half[place] = [(0, np.nan), *((at.n, at.half_width) for at in made[labels].looks)][-1]
            reason[place] = made[labels].reason or "not finished"
    dims, comment = tuple(axis.name for axis in others), f"{precision.goal.statistic} of {precision.variable}"
    return {
        name: (dims, values, {**COORDINATES[name].attributes, "comment": comment})
        for name, values in ((SEEDS, seeds), (HALF_WIDTH, half), (REASON, reason))
    }


def find_planned_seeds(phase: Phase, results: Sequence[xr.Dataset]) -> ParameterTable | None:
    """Return the seeds with a run key in at least one result, or None without a target precision."""
    if phase.precision is None:
        return None
    names = [name for name in phase.space.names if name != SEED]
    counts: dict[Labels, int] = {}
    for data in results:
        labels = [[text_label(to_canonical(value)) for value in data[name].values] for name in names]
        found = (data["run_key"].astype(str) != "").sum(SEED).transpose(*names)
        for place, setup in _iterate_setups(labels):
            counts[setup] = max(int(found.values[place]), counts.get(setup, 0))
    return phase.precision.seeds(phase.space, counts)
