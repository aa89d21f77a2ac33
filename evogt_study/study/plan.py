"""Define the phases of a study, and plan them: cases, run keys, order of the runs, and the stages that runs share.

For equal means, the pilot chooses the smaller candidate.  A target precision only adds seeds, in the order of the seed
axis, so the plan of a resumed study is the plan of an uninterrupted study.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import InputError, ParameterError, PilotError, StudyError, shorten
from evogt_study.inference.intervals import MIN_UNITS, Decision, Goal, decide
from evogt_study.methods.code import Alternatives, MethodSpec, UserCode
from evogt_study.methods.current_run import SEED
from evogt_study.methods.loading import METHOD, load_method
from evogt_study.methods.protocol import Method, hash_setup, make_entry
from evogt_study.schema.records import NO_NEEDS, Case, Needs
from evogt_study.schema.values import KEY_DIGITS, Value, Values, is_number, make_coordinate, to_canonical, to_string
from evogt_study.schema.variables import CANDIDATE, COORDINATES, PILOT, Status, to_losses
from evogt_study.storage.arrays import MAX_SLAB_VALUES
from evogt_study.study.case_space import BLOCK, MAX_CASES, Axis, CaseSpace, Keys, ParameterTable

if TYPE_CHECKING:  # readers of a result need plans, but not pydantic
    import xarray as xr

    from evogt_study.results.table import RunTable
    from evogt_study.study.model import PilotTable, PrecisionTable
    from evogt_study.study.reading import Resources, SourceLocation, StudyReader
    from evogt_study.study.study import Study

Order = npt.NDArray[np.int64]  # an order of all points of a space, given by their numbers
Work = npt.NDArray[np.float64]
"""Estimated seconds of each case in the shape of a space, NaN without a case.  Axes without influence have length 1."""
OWN_STAGE = "run"  # name of the stage that cases never share
MAX_COMBINATIONS = 1_000  # largest number of combinations for which the work is estimated, in 0.1 s
MAX_COUNTED_CASES = 10_000  # largest number of cases for which shared stages are counted
MAX_WORK_RATIO = 8.0
"""Largest ratio of the longest to the shortest estimated work at which runs are ordered by seed.  For larger ratios, a
batch of long runs whose size is chosen for the shortest run takes 6 s instead of 0.7 s."""
Labels = tuple[str, ...]  # values of a setup as strings, one for each axis except the seed
Candidate = tuple[Value, ...]  # one value for each parameter that the pilot chooses
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
    """Choice of the best candidate at each point of the axes `by`, by the mean of `minimise` over all other axes."""

    parameters: tuple[str, ...]
    minimise: str
    by: tuple[str, ...]
    candidates: Mapping[Labels, tuple[Candidate, ...]]
    better: str = ""


def read_pilot(table: PilotTable, space: CaseSpace, declared: StudyReader, better: str) -> Phase:
    """Read the ``[pilot]`` section and check it against the main phase.  Raises StudyError."""
    place, by, parameters = declared.locate("pilot"), table.by, table.parameters
    if CANDIDATE in declared.method.parameters:
        raise place.error(f"rename the parameter `{CANDIDATE}`, because the pilot has an axis of this name")
    if SEED not in space.names:
        axes = ", ".join(space.names)
        raise declared.locate("axes").error(f"a study with a pilot must have a `seed` axis, got {axes}")
    if len({*by}) != len(by) or not {*by} <= {*space.names} - {SEED}:
        raise place.at("by").error(f"`by` must name different axes other than seed, got {shorten(by)}")
    space_without_formulas = replace(space, formulas=())  # which may use a parameter that the pilot chooses
    if not parameters or len({*parameters}) != len(parameters):
        raise place.at("parameter").error(f"`parameter` must name different parameters, got {shorten(parameters)}")
    rules = space_without_formulas.dependent_parameters
    given = {"axes": (*space.names, *space.columns), "when": rules, "constants": tuple(declared.table.constants)}
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
        got = f"{', '.join(to_string(seed) for seed in shared[:5])} in both" if shared else "none"
        raise place.at("seeds").error(f"the `seeds` of the pilot must differ from the seeds of the study, got {got}")
    # The axis has the candidate's number, since each point of `by` may have its own candidates.  It is as long as the
    # longest list.  A shorter list has no entry in the table for the rest, so there is no case.
    numbers = tuple(range(max(len(values) for values in candidates.values())))
    others = tuple(axis for axis in space.axes if axis.name != SEED)
    entries = {
        (*key, to_string(number)): each for key, listed in candidates.items() for number, each in enumerate(listed)
    }
    over = (*by[:1], CANDIDATE) if isinstance(table.candidates, dict) else (CANDIDATE,)
    chosen = ParameterTable(tuple(parameters), over, entries)
    pilot_space = replace(space, axes=(*others, Axis(CANDIDATE, numbers, {}), Axis(SEED, seeds)), chosen=(chosen,))
    if pilot_space.size > MAX_CASES:
        raise place.error(f"a pilot must have at most {MAX_CASES:,} cases, got {pilot_space.size:,}")
    keys = itertools.product(*([to_string(value) for value in space.axis(name).values] for name in by))
    of_keys = {key: candidates[key[: len(over) - 1]] for key in keys}
    return Phase(PILOT, pilot_space, Pilot(tuple(parameters), table.minimise, tuple(by), of_keys, better))


def _read_candidates(table: PilotTable, space: CaseSpace, declared: StudyReader) -> dict[Labels, tuple[Candidate, ...]]:
    """Return the candidates by the value of the first axis in `by`, or one list with an empty key."""
    place, names = declared.locate("pilot.candidates"), table.parameters
    if isinstance(table.candidates, dict):
        if not table.by:
            raise place.error("`candidates` must be a list if `by` is empty")
        axis = space.axis(table.by[0])
        wanted = [to_string(value) for value in axis.values]
        if set(table.candidates) != set(wanted):
            message = f"`candidates` must have a list for each {axis.name} ({', '.join(wanted)})"
            raise place.error(f"{message}, got {', '.join(table.candidates) or 'none'}")
    found: dict[Labels, tuple[Candidate, ...]] = {}
    for label, raw in table.candidates.items() if isinstance(table.candidates, dict) else [((), table.candidates)]:
        key, here = ((label,), place.at(label)) if isinstance(label, str) else ((), place)
        if isinstance(table.parameter, str):
            values = declared.read_values(table.parameter, raw, here)
            if not values or not all(map(is_number, values)):
                raise here.mistake("numbers", raw, name="candidates")
            found[key] = tuple((value,) for value in values)
            continue
        if not raw or not all(isinstance(each, list) and len(each) == len(names) for each in raw):
            raise here.mistake(f"lists of {len(names)} values, for {', '.join(names)}", raw, name="candidates")
        columns = [declared.read_column(name, [each[i] for each in raw], here.at(name)) for i, name in enumerate(names)]
        found[key] = tuple(zip(*columns, strict=True))
        if len({tuple(map(to_string, each)) for each in found[key]}) < len(raw):
            raise here.mistake("different", raw, name="candidates")
    return found


def join_values(values: Iterable[Value]) -> str:
    """Join values in the form "6 and 40"."""
    return " and ".join(map(to_string, values))


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
            (*labels, to_string(seed)): (seed,)
            for _, labels in _iterate_setups([list(map(to_string, axis.values)) for axis in others])
            for seed in seeds[: counts.get(labels, self.goal.first)]
        }
        return ParameterTable((SEED,), (*(axis.name for axis in others), SEED), table)


def read_precision(table: PrecisionTable, space: CaseSpace, declared: StudyReader) -> tuple[Precision, CaseSpace]:
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
            known = list(map(to_string, values))
            if axis.name == SEED or not {first, second} <= set(known):
                continue
            for each in (first, second):
                if (count := known.count(each)) > 1:
                    wanted = f"`statistic` must name values that occur once along {axis.name}"
                    remedy = f"vary {name} in [axes] to compare its values in each setup"
                    raise place.error(f"{wanted}, got {name} = {each} at {count} points", remedy)
            one, other = (to_string(axis.values[known.index(each)]) for each in (first, second))
            return axis.name, (one, other)
    raise place.mistake('mean, median, or "ratio A/B" of two values of one axis', f"ratio {text}")


# --- decisions from finished runs -------------------------------------------------------------------------------------


def _read_numbers(name: str, table: RunTable) -> npt.NDArray[np.float64] | None:
    """Return a number for each case, or None if the variable has no numbers.  A run that is not ok has NaN."""
    column = table.columns.get(name)
    if column is None or not column.is_number:
        return None
    return np.where(column.present & (table.status == Status.ok), column.load().values, np.nan).astype(float)


# mean, not nanmean: a missing run must not make its candidate look better.  A diverged run has an infinite value.
def choose_parameters(phase: Phase, table: RunTable) -> tuple[ParameterTable, ...]:
    """Choose parameters from the runs of one phase.  Raises PilotError for a point without a candidate that is ok."""
    if (pilot := phase.choice) is None:
        return ()
    most = f". The most frequent message is: {message}" if (message := table.commonest_message()) else ""
    measured = _read_numbers(pilot.minimise, table)
    if measured is None:
        reason = f"the runs returned no number of this name (returned: {', '.join(sorted(table.columns)) or 'none'})"
        if pilot.minimise in table.columns:
            reason = f"it is {table.shapes[pilot.minimise, False]}, not a number"
        raise PilotError(f"the pilot cannot minimise `{pilot.minimise}`: {reason}{most}")
    losses = np.where(table.status == Status.diverged, np.inf, to_losses(measured, pilot.better))
    space, losses = table.plan.space, losses.reshape(table.plan.space.shape)
    over = tuple(axis for axis, name in enumerate(space.names) if name not in (*pilot.by, CANDIDATE))
    means = np.mean(losses, axis=over)  # NaN where any run is missing; axes left: `by` in axis order, then candidate
    order = [name for name in space.names if name in (*pilot.by, CANDIDATE)]
    means = means.transpose([order.index(name) for name in (*pilot.by, CANDIDATE)]).reshape(len(pilot.candidates), -1)
    choice: dict[Labels, Candidate] = {}
    for (key, candidates), own in zip(pilot.candidates.items(), means, strict=True):
        usable = [
            (float(mean), float(each[0]) if len(each) == 1 else 0.0, number)  # type: ignore[arg-type]  # checked when read
            for number, (each, mean) in enumerate(zip(candidates, own, strict=False))
            if np.isfinite(mean)
        ]
        if not usable:
            wanted = f"`{join_values(pilot.parameters)}`" + " for " * bool(key)
            wanted += ", ".join(f"{name} = {label}" for name, label in zip(pilot.by, key, strict=True))
            reason = f"each of the {len(candidates)} candidates has a run that is not ok{most}"
            raise PilotError(f"the pilot cannot choose {wanted}: {reason}")
        choice[key] = candidates[min(usable)[2]]
    return (ParameterTable(pilot.parameters, pilot.by, choice),)


def decide_setups(precision: Precision, table: RunTable) -> dict[Labels, Decision]:
    """Return the decision of `decide` for each setup.  The two setups of a ratio share their decision."""
    space, numbers = table.plan.space, _read_numbers(precision.variable, table)
    # a failed run is finished without a value, so that a setup with only failures does not need seeds without end
    both = (np.full(table.size, np.nan) if numbers is None else numbers, table.status != Status.not_run)
    values, there = (np.moveaxis(each.reshape(space.shape), space.names.index(SEED), -1) for each in both)
    shown = [list(map(to_string, axis.values)) for axis in space.axes if axis.name != SEED]
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


def make_precision_coordinates(precision: Precision, table: RunTable) -> dict[str, Any]:
    """Return coordinates with the number of seeds, half width and reason to stop of each setup."""
    others = [axis for axis in table.plan.space.axes if axis.name != SEED]
    shape, made = tuple(len(axis.values) for axis in others), decide_setups(precision, table)
    seeds, half, reason = np.zeros(shape, np.int64), np.full(shape, np.nan), np.full(shape, "", object)
    for place, labels in _iterate_setups([list(map(to_string, axis.values)) for axis in others]):
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
        labels = [[to_string(to_canonical(value)) for value in data[name].values] for name in names]
        found = (data["run_key"].astype(str) != "").sum(SEED).transpose(*names)
        for place, setup in _iterate_setups(labels):
            counts[setup] = max(int(found.values[place]), counts.get(setup, 0))
    return phase.precision.seeds(phase.space, counts)


# --- run keys and order -----------------------------------------------------------------------------------------------


def compute_run_keys(method: Method, space: CaseSpace) -> Keys:
    """Compute the run key of each point as `BoundCase.key`, but bind a case once for all points of inner axes."""
    # inner axes vary only key-only parameters, have no list values and decide no other parameter
    free = [axis for axis in space.axes if {*axis.parameters} <= {*method.key_only_parameters}]
    listed = [axis for axis in free if any(isinstance(each, tuple) for row in axis.parameters.values() for each in row)]
    inner = [axis for axis in free if axis not in listed and not space.decides(axis)]
    outer = [axis for axis in space.axes if axis not in inner]
    places = [space.names.index(axis.name) for axis in (*outer, *inner)]
    texts = itertools.chain.from_iterable(_make_texts(method, space, outer, inner))
    keys: Keys = np.zeros(space.size, dtype=f"S{KEY_DIGITS}")
    for start in range(0, space.size, MAX_SLAB_VALUES):
        digests = b"".join([hashlib.sha256(text).digest() for text in itertools.islice(texts, MAX_SLAB_VALUES)])
        found = np.frombuffer(digests, dtype="u1").reshape(-1, 32)[:, : KEY_DIGITS // 2].tobytes()
        keys[start : start + MAX_SLAB_VALUES] = np.frombuffer(found.hex().encode(), dtype=keys.dtype)
    keys[keys == hashlib.sha256(b"").hexdigest()[:KEY_DIGITS].encode()] = b""
    return keys.reshape([space.shape[place] for place in places]).transpose(np.argsort(places)).ravel()


def _make_texts(
    method: Method, space: CaseSpace, outer: Sequence[Axis], inner: Sequence[Axis]
) -> Iterator[Iterable[bytes]]:
    """Yield for each point of the `outer` axes the texts to hash, one for each point of the `inner` axes."""
    first = replace(space, axes=(*outer, *(replace(axis, values=axis.values[:1]) for axis in inner)))
    known: dict[tuple[str, ...], list[list[tuple[bytes, ...]]]] = {}
    for values in first.iterate_values(np.arange(first.size)):
        if values is None:
            yield [b""] * math.prod(len(axis.values) for axis in inner)
            continue
        case = method.bind(values)
        plain, defaults = case.key_only_values, case.defaults
        used = tuple(name for axis in inner for name in axis.parameters if name in plain)
        kind = (*used, *(str(make_entry(name, defaults[name], {})) for name in used if name in defaults))
        if kind not in known:
            known[kind] = [_make_entries(axis, used, defaults) for axis in inner]
        entries = (
            b"%b" if name in used else make_entry(name, plain[name], defaults).replace(b"%", b"%%")
            for name in sorted(plain)
        )
        text = hash_setup(case.setup) + b"".join(entries)
        chained = map(itertools.chain.from_iterable, itertools.product(*known[kind]))
        points: Iterable[tuple[bytes, ...]] = map(tuple, chained)
        if sorted(used) != list(used):
            points = map(operator.itemgetter(*sorted(range(len(used)), key=used.__getitem__)), points)
        yield map(text.__mod__, points)


def _make_entries(axis: Axis, used: Sequence[str], defaults: Values) -> list[tuple[bytes, ...]]:
    """Return the key entries of the `used` parameters at each point of an axis."""
    columns = [(name, values) for name, values in axis.parameters.items() if name in used]
    entries = [[make_entry(name, value, defaults) for value in values] for name, values in columns]
    return list(zip(*entries, strict=True)) if entries else [()] * len(axis.values)


@dataclass(frozen=True, eq=False)
class Plan:
    """The cases of one phase, with their run keys and their order."""

    phase: str
    spec: MethodSpec
    space: CaseSpace
    folder: str = ""  # of run folders and checkpoints, or "" if the plan has no result file
    resources: Resources | None = None  # None if the study does not state the needs of its runs

    @property
    def method(self) -> Method:
        """The method that runs the cases."""
        return load_method(self.spec)

    def case(self, index: int) -> Case | None:
        """Return case number `index`, or None if the point has no case."""
        values = self.space.values(index)
        return None if values is None else Case(index, values, self.method.bind(values).key)

    @cached_property
    def keys(self) -> Keys:
        """The run key of each point, which is empty if the point has no case."""
        return compute_run_keys(self.method, self.space)

    @property
    def runs(self) -> Order:
        """Numbers of the cases, with only the first of several cases that share a run."""
        keys, first = np.unique(self.keys, return_index=True)
        return np.sort(first[keys != b""])

    @cached_property
    def work(self) -> Work | None:
        """Estimated work of the cases, or None if it is unknown or has more than `MAX_COMBINATIONS` combinations."""
        space, sizes = self.space, self.method.setup_parameters
        deciding = set(sizes).union(*map(space.find_dependence, sizes))
        deciding |= {name for choice in space.chosen for name in choice.over}
        deciding |= set(space.list_axes_of(name for rule in space.rules if rule.set is None for name in rule.match))
        shape = tuple(len(axis.values) if axis.name in deciding else 1 for axis in space.axes)
        if math.prod(shape) > MAX_COMBINATIONS:
            return None
        found = np.full(shape, np.nan)
        for position in np.ndindex(shape):
            values = space.resolve({axis.name: axis.values[i] for axis, i in zip(space.axes, position, strict=True)})
            if values is not None:
                work = estimate_work(self.method, values)
                if work is None:
                    return None
                found[position] = work
        return None if np.isnan(found).all() else found

    @property
    def longest(self) -> float:
        """Estimated seconds of the longest run, or 0 if unknown."""
        return 0.0 if self.work is None else float(np.nanmax(self.work))

    @property
    def order(self) -> Order:
        """Numbers of all points: long runs first, cases that share stages together, or seed by seed."""
        leading, work, space = self.method.stage_parameters, self.work, self.space
        order = order_longest_first(space, leading or (), work)
        if SEED not in space.names:
            return order
        axis = space.names.index(SEED)
        if leading is not None and (SEED not in leading or work is None or work.shape[axis] > 1):
            return order
        if leading is not None and work is not None and np.nanmax(work) > MAX_WORK_RATIO * np.nanmin(work):
            return order
        # seed by seed: seeds share no early stage, and all runs take about equally long
        return order[np.argsort(order // math.prod(space.shape[axis + 1 :]) % space.shape[axis], kind="stable")]

    # block by block: the dictionaries of a million cases would take hundreds of MB
    def cases(self, numbers: Order | None = None) -> Iterator[Case]:
        """Yield the cases with these numbers, by default all cases in `order`."""
        numbers = self.order if numbers is None else numbers
        for start in range(0, len(numbers), BLOCK):
            block = numbers[start : start + BLOCK]
            keys = self.keys[block].astype(str).tolist()
            for index, values, key in zip(block.tolist(), self.space.iterate_values(block), keys, strict=True):
                if values is not None:
                    needs = NO_NEEDS if self.resources is None else self.resources.compute_needs(values)
                    yield Case(index, values, key, needs)

    def trials(self, numbers: Order) -> Order:
        """Return the first case of each user function in the cases `numbers`."""
        if not isinstance(self.spec.method, Alternatives):
            return numbers[: isinstance(self.spec.method, UserCode)]  # one case, or none
        own = {label for label, part in self.spec.method.options if isinstance(part, UserCode)}
        along = self.space.names.index(METHOD)
        labels = [str(value) for value in self.space.axes[along].values]
        positions = np.unravel_index(numbers, self.space.shape)[along]
        different, first = np.unique(positions, return_index=True)
        return numbers[[at for position, at in zip(different, first, strict=True) if labels[position] in own]]

    @property
    def group(self) -> int:
        """Number of neighbouring cases that share their early stages: the product of the inner axes."""
        if self.method.stage_parameters is None:
            return 1
        leading = self.space.list_axes_of(self.method.stage_parameters)
        return math.prod(len(axis.values) for axis in self.space.axes if axis.name not in leading)


def plan_phase(study: Study, phase: Phase, chosen: Sequence[ParameterTable] = ()) -> Plan:
    """Plan one phase with the choices of earlier phases, which may contain the seeds for a target precision."""
    if phase.precision is not None and not any(SEED in each.names for each in chosen):
        chosen = [*chosen, phase.precision.seeds(phase.space, {})]
    return Plan(phase.name, study.spec, phase.space.with_chosen(*chosen), resources=study.resources)


def fill_until_precise(
    study: Study, phase: Phase, chosen: Sequence[ParameterTable], fill: Callable[[Plan], RunTable], *,
    computing: bool = False,
) -> RunTable:  # fmt: skip
    """Return the table of a phase that `fill` fills, with seeds for the target precision.

    `computing` is True if `fill` computes missing runs.  Raises StudyError if no computed run has the variable.
    """
    precision = phase.precision
    if precision is None:
        return fill(plan_phase(study, phase, chosen))
    counts: dict[Labels, int] = {}
    while True:
        table = fill(plan_phase(study, phase, [*chosen, precision.seeds(phase.space, counts)]))
        known = sorted(name for name, column in table.columns.items() if column.is_number)
        if computing and precision.variable not in known and np.any(table.status == Status.ok):
            message = f"`variable` must be one of {', '.join(known) or 'none'}, got {shorten(precision.variable)}"
            where = f"({study.file}, precision.variable). Correct the name. The next run reuses the finished runs."
            raise StudyError(f"{message} {where}")
        wanted = {labels: each.wanted for labels, each in decide_setups(precision, table).items()}
        if all(count <= counts.get(labels, precision.goal.first) for labels, count in wanted.items()):
            return table
        counts = counts | wanted


def count_needs(study: Study) -> dict[Needs, int]:
    """Return the largest number of runs in a phase for each kind of needs."""
    found: dict[Needs, int] = {}
    for plan in plan_study(study) if study.resources is not None else ():
        for needs, count in Counter(case.needs for case in plan.cases()).items():
            found[needs] = max(count, found.get(needs, 0))
    return dict(sorted(found.items()))


def plan_study(study: Study) -> list[Plan]:
    """Plan all phases before the first run, with provisional choices."""
    spaces = study.iterate_provisional_spaces()
    return [plan_phase(study, replace(phase, space=space)) for phase, space in zip(study.phases, spaces, strict=True)]


# A long run that begins last leaves the other workers idle: with one batch of 3 s among batches of 0.2 s, a study takes
# 5.2 s if it comes last and 3.7 s if it comes first.
def order_longest_first(space: CaseSpace, leading: Iterable[str], work: Work | None = None) -> Order:
    """Return all points in groups of equal `leading` parameters, the groups of the most work first."""
    leading = space.list_axes_of(leading)
    ranks = {name: rank for rank, name in enumerate(leading)}
    nesting = sorted(range(len(space.axes)), key=lambda i: ranks.get(space.names[i], len(leading)))
    order = np.arange(space.size, dtype=np.int64).reshape(space.shape).transpose(nesting).ravel()
    if work is None:
        return order
    inner = tuple(number for number, axis in enumerate(space.axes) if axis.name not in leading)
    groups = np.nansum(work, axis=inner, keepdims=True)
    shape = tuple(1 if number in inner else length for number, length in enumerate(space.shape))
    along = np.broadcast_to(-groups, shape).transpose(nesting).ravel()
    return order.reshape(len(along), -1)[np.argsort(along, kind="stable")].ravel()  # stable, for shared stages


def estimate_work(method: Method, values: Values) -> float | None:
    """Estimate the seconds of a case, or return None if unknown.  Return 0 for inconsistent parameters."""
    try:
        return method.bind(values).work
    except InputError:
        return 0.0


@dataclass(frozen=True)
class SharedWork:
    """Numbers of cases that need a stage, by estimated work.  `first` counts only cases that need a new result."""

    stage: str
    cases: int
    first: Mapping[float, int]
    all: Mapping[float, int]
    growing: bool = True  # True if the second half of the cases needs new results of the stage

    @property
    def distinct(self) -> int:
        """Number of different computations of the stage."""
        return sum(self.first.values())


def count_shared_work(plan: Plan, limit: int = MAX_COUNTED_CASES, numbers: Order | None = None) -> list[SharedWork]:
    """Count the different computations of each stage in the first `limit` cases.  The stage `OWN_STAGE` is last."""
    stages: dict[str, tuple[dict[Hashable, int], list[int]]] = {}  # first case with each key, and all cases
    works: list[float] = []
    known: dict[tuple[Value | None, ...], float] = {}
    sizes = plan.method.setup_parameters
    order = order_longest_first(plan.space, plan.method.stage_parameters or ())
    order = order if numbers is None else order[np.isin(order, numbers)]
    for values in itertools.islice(filter(None, plan.space.iterate_values(order)), limit):
        size = tuple(map(values.get, sizes))
        if size not in known:
            known[size] = estimate_work(plan.method, values) or 0.0
        for stage, key in (*plan.method.bind(values).stages.items(), (OWN_STAGE, len(works))):
            first, every = stages.setdefault(stage, ({}, []))
            first.setdefault(key, len(works))
            every.append(len(works))
        works.append(known[size])
    found = []
    for stage, (first, every) in sorted(stages.items(), key=lambda entry: entry[0] == OWN_STAGE):
        new, all_works = (Counter(works[case] for case in cases) for cases in (first.values(), every))
        found.append(SharedWork(stage, len(works), new, all_works, max(first.values()) >= len(works) // 2))
    return found


def estimate_peak_memory(plan: Plan) -> float:
    """Estimate the largest memory of a run in bytes."""
    values = (plan.space.resolve(point) for point in plan.space.representatives(extra=plan.method.setup_parameters))
    return max((plan.method.bind(given).memory for given in values if given is not None), default=0.0)
