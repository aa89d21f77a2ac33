"""Plan a phase: its cases, their run keys, the order of the runs, and the stages that runs share."""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evogt_study.errors import InputError, StudyError, shorten
from evogt_study.methods.code import Alternatives, MethodSpec, UserCode
from evogt_study.methods.loading import METHOD, load_method
from evogt_study.methods.protocol import Method, hash_setup, make_entry
from evogt_study.schema.records import NO_NEEDS, Case, Needs
from evogt_study.schema.values import KEY_DIGITS, Value, Values
from evogt_study.schema.variables import Status
from evogt_study.storage.arrays import SLAB
from evogt_study.study.case_space import BLOCK, Axis, CaseSpace, Keys, ParameterTable
from evogt_study.study.phases import SEED, Labels, Phase, decide_setups

if TYPE_CHECKING:  # readers of a result need plans, but not pydantic
    from evogt_study.results.table import RunTable
    from evogt_study.study.reading import Resources
    from evogt_study.study.study import Study

Order = npt.NDArray[np.int64]
"""An order of all points of a space, given by their numbers."""
Work = npt.NDArray[np.float64]
"""Estimated seconds of each case, in the shape of a space.  Axes without influence have length 1.  A point without a
case is NaN."""
OWN = "run"
"""Name of the stage that cases never share."""
MAX_COMBINATIONS = 1_000
"""Largest number of combinations for which the work is estimated, in 0.1 s.  More make the work unknown."""
MAX_COUNTED = 10_000
"""Largest number of cases for which shared stages are counted.  In a larger study, only the first cases count."""
ALIKE = 8.0
"""Largest ratio of the longest to the shortest estimated work at which runs are ordered by seed.  A batch of long runs
whose size is chosen for the shortest run then takes 6 s instead of 0.7 s."""


# 20 of SHA-256's 64 digits: two of 10 million different cases share a key with a probability of 4e-11
def compute_run_keys(method: Method, space: CaseSpace) -> Keys:
    """Compute the run key of each point as `BoundCase.key`, but bind a case once for all points of inner axes."""
    inner = [axis for axis in space.axes if _is_inner(axis, method, space)]
    outer = [axis for axis in space.axes if axis not in inner]
    places = [space.names.index(axis.name) for axis in (*outer, *inner)]
    texts = itertools.chain.from_iterable(_make_texts(method, space, outer, inner))
    keys: Keys = np.zeros(space.size, dtype=f"S{KEY_DIGITS}")
    for start in range(0, space.size, SLAB):
        digests = b"".join([hashlib.sha256(text).digest() for text in itertools.islice(texts, SLAB)])
        found = np.frombuffer(digests, dtype="u1").reshape(-1, 32)[:, : KEY_DIGITS // 2].tobytes()
        keys[start : start + SLAB] = np.frombuffer(found.hex().encode(), dtype=keys.dtype)
    keys[keys == hashlib.sha256(b"").hexdigest()[:KEY_DIGITS].encode()] = b""
    return keys.reshape([space.shape[place] for place in places]).transpose(np.argsort(places)).ravel()


def _is_inner(axis: Axis, method: Method, space: CaseSpace) -> bool:
    """Return True if the axis varies only key-only parameters, has no list values and decides no other parameter."""
    is_plain = set(axis.parameters) <= {*method.key_only_parameters} and not space.decides(axis)
    return is_plain and not any(isinstance(value, tuple) for values in axis.parameters.values() for value in values)


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
        points: Iterable[tuple[bytes, ...]] = map(
            tuple, map(itertools.chain.from_iterable, itertools.product(*known[kind]))
        )
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
    folder: str = ""
    """Folder for run folders and checkpoints, or "" if the plan has no result file."""
    resources: Resources | None = None
    """Needs of the runs, or None if the study does not state them."""

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
        """Estimated work of the cases, or None if it is unknown or for more than `MAX_COMBINATIONS` combinations."""
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
        if leading is not None and work is not None and np.nanmax(work) > ALIKE * np.nanmin(work):
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
            # one case, or none: True counts as 1
            return numbers[: isinstance(self.spec.method, UserCode)]
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

    @property
    def count(self) -> int:
        """Number of cases."""
        return self.space.count


def plan_phase(study: Study, phase: Phase, chosen: Sequence[ParameterTable] = ()) -> Plan:
    """Plan one phase with the choices of earlier phases.

    With a target precision, plan the first batch of seeds unless a choice contains the seeds.
    """
    if phase.precision is not None and not any(SEED in each.names for each in chosen):
        chosen = [*chosen, phase.precision.seeds(phase.space, {})]
    return Plan(phase.name, study.spec, phase.space.with_chosen(*chosen), resources=study.resources)


def fill_until_precise(
    study: Study, phase: Phase, chosen: Sequence[ParameterTable], fill: Callable[[Plan], RunTable], *,
    computing: bool = False,
) -> RunTable:  # fmt: skip
    """Return the table of a phase that `fill` fills.  A target precision adds seeds until each setup has enough.

    `computing` is True if `fill` computes missing runs.  Raises StudyError if no computed run has the variable.
    """
    precision = phase.precision
    if precision is None:
        return fill(plan_phase(study, phase, chosen))
    counts: dict[Labels, int] = {}
    while True:
        table = fill(plan_phase(study, phase, [*chosen, precision.seeds(phase.space, counts)]))
        known = sorted(name for name, column in table.columns.items() if column.is_number)
        # only its runs show what a user function returns
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


# memory, order and rough work are needed before anything runs
def plan_study(study: Study) -> list[Plan]:
    """Plan all phases before the first run, with provisional choices."""
    spaces = study.iterate_provisional_spaces()
    return [plan_phase(study, replace(phase, space=space)) for phase, space in zip(study.phases, spaces, strict=True)]


# A long run that begins last leaves the other workers idle: with one batch of 3 s among batches of 0.2 s, a study takes
# 5.2 s if it comes last and 3.7 s if it comes first.
def order_longest_first(space: CaseSpace, leading: Iterable[str], work: Work | None = None) -> Order:
    """Return all points in groups, with the groups of the most work first.

    A group contains the cases with equal `leading` parameters, which share early stages.  Points inside a group keep
    their order.
    """
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
    # stable, so that groups that take equally long stay in the order in which they share stages
    first = np.argsort(along, kind="stable")
    return order.reshape(len(along), -1)[first].ravel()


def estimate_work(method: Method, values: Values) -> float | None:
    """Estimate the seconds of a case, or return None if unknown.  Return 0 for inconsistent parameters."""
    try:
        return method.bind(values).work
    except InputError:
        return 0.0


@dataclass(frozen=True)
class SharedWork:
    """Number of cases that need a stage for the first time (`first`) and in total (`all`), by estimated work.

    `growing` is True if the second half of the cases needs new results of the stage.
    """

    stage: str
    cases: int
    first: Mapping[float, int]
    all: Mapping[float, int]
    growing: bool = True

    @property
    def distinct(self) -> int:
        """Number of different computations of the stage."""
        return sum(self.first.values())


def count_shared_work(plan: Plan, limit: int = MAX_COUNTED, numbers: Order | None = None) -> list[SharedWork]:
    """Count the distinct computations of each stage in the first `limit` cases, with `OWN` last."""
    stages: dict[str, tuple[dict[Hashable, int], list[int]]] = {}  # first case with each key, and all cases
    works: list[float] = []
    known: dict[tuple[Value | None, ...], float] = {}
    sizes = plan.method.setup_parameters
    order = order_longest_first(plan.space, plan.method.stage_parameters or ())
    order = order if numbers is None else order[np.isin(order, numbers)]
    for values in itertools.islice(
        (values for values in plan.space.iterate_values(order) if values is not None), limit
    ):
        size = tuple(map(values.get, sizes))
        if size not in known:
            known[size] = estimate_work(plan.method, values) or 0.0
        for stage, key in (*plan.method.bind(values).stages.items(), (OWN, len(works))):
            first, every = stages.setdefault(stage, ({}, []))
            first.setdefault(key, len(works))
            every.append(len(works))
        works.append(known[size])
    found = []
    for stage, (first, every) in sorted(stages.items(), key=lambda entry: entry[0] == OWN):
        new, all_works = (Counter(works[case] for case in cases) for cases in (first.values(), every))
        found.append(SharedWork(stage, len(works), new, all_works, max(first.values()) >= len(works) // 2))
    return found


def estimate_peak_memory(plan: Plan) -> float:
    """Estimate the largest memory of a run in bytes."""
    values = (plan.space.resolve(point) for point in plan.space.representatives(extra=plan.method.setup_parameters))
    return max((plan.method.bind(given).memory for given in values if given is not None), default=0.0)
