"""Plan a phase: its cases, their keys, the order of the runs, and the stages that runs share."""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import InputError
from evogt_study.methods.code import UserCode
from evogt_study.methods.loading import METHOD, load_method
from evogt_study.methods.protocol import Alternatives, BoundCase, KnownTexts, Method, MethodSpec, make_entry
from evogt_study.schema.records import Case
from evogt_study.schema.values import KEY_DIGITS, Value, Values, json_text, text_hash
from evogt_study.storage.arrays import SLAB
from evogt_study.study.case_space import BLOCK, Axis, CaseSpace, Chosen, Keys
from evogt_study.study.phases import SEED, Phase

if TYPE_CHECKING:  # readers of a result need plans, but not pydantic
    from evogt_study.study.resources import Needs, Resources
    from evogt_study.study.study import Study

MAX_PATTERNS = 16
"""Patterns of texts that are kept: one for each set of plain parameters with defaults, as each dictionary has."""


# 20 of SHA-256's 64 digits: two of 10 million different cases share a key with a probability of 4e-11
def run_keys(method: Method, space: CaseSpace) -> Keys:
    """Compute the key of every case, by its number; empty if none is planned."""
    every = [_KeyAxis(axis, method, space) for axis in space.axes]
    inner = [each for each in every if each.is_plain]
    bound = [each for each in every if not each.is_plain]
    # plain axes come last, so that all keys of one setup follow each other
    places = [space.names.index(each.name) for each in bound + inner]
    texts = itertools.chain.from_iterable(_make_texts(method, space, bound, inner))
    keys: Keys = np.zeros(space.size, dtype=f"S{KEY_DIGITS}")
    for start in range(0, space.size, SLAB):
        digests = b"".join([hashlib.sha256(text).digest() for text in itertools.islice(texts, SLAB)])
        found = np.frombuffer(digests, dtype="u1").reshape(-1, 32)[:, : KEY_DIGITS // 2].tobytes()
        keys[start : start + SLAB] = np.frombuffer(found.hex().encode(), dtype=keys.dtype)
    keys[keys == hashlib.sha256(b"").hexdigest()[:KEY_DIGITS].encode()] = b""
    return keys.reshape([space.shape[place] for place in places]).transpose(np.argsort(places)).ravel()


class _KeyAxis:
    """An axis: its plain parameters, and which of its points have the same setup.

    plain: the values of the parameters that enter keys unchanged.  alike: a number for each point, which points have in
    common if they differ in plain parameters only.
    """

    def __init__(self, axis: Axis, method: Method, space: CaseSpace) -> None:
        self.name, self.values = axis.name, axis.values
        self.decides, plain = space.decides(axis), method.plain_parameters
        self.columns = list(axis.parameters.items())
        # a list of a plain parameter may not fit to the setup
        self.plain: Mapping[str, Sequence[Value]] = {
            name: values
            for name, values in self.columns
            if not self.decides and name in plain and not any(isinstance(value, tuple) for value in values)
        }
        others = [list(map(json_text, values)) for name, values in self.columns if name not in self.plain]
        self.is_plain = not self.decides and not others
        known: dict[object, int] = {}
        points = zip(*others, strict=True) if others and not self.decides else range(len(axis.values))
        self.alike = [known.setdefault(point, len(known)) for point in points]

    def make_entries(self, plain: Values, defaults: Values) -> list[tuple[bytes, ...]]:
        """The entries of its parameters among `plain` at each point."""
        columns = [
            [make_entry(name, value, defaults) for value in values]
            for name, values in self.plain.items()
            if name in plain
        ]
        return list(zip(*columns, strict=True)) if columns else [()] * len(self.values)


def _make_texts(
    method: Method, space: CaseSpace, bound: Sequence[_KeyAxis], inner: Sequence[_KeyAxis]
) -> Iterator[Iterable[bytes]]:
    """The texts, as in `BoundCase.key`, at each point of the `bound` axes for all points of the `inner` axes."""
    missing = [b""] * math.prod(len(each.values) for each in inner)
    outlines: dict[tuple[int, ...], tuple[_Pattern, bytes] | None] = {}
    patterns: dict[tuple[object, ...], _Pattern] = {}
    # values that rules give are the same along axes on which nothing depends
    free = [(i, name, values) for i, each in enumerate(bound) if not each.decides for name, values in each.columns]
    deciding = [(i, each.name, each.values) for i, each in enumerate(bound) if each.decides]
    first = {each.name: each.values[0] for each in (*bound, *inner) if not each.decides}
    known: tuple[list[int], Values | None] = [], space.resolve(first) if not deciding else None
    numbers = [each.alike for each in bound]
    are_different = all(len(set(alike)) == len(alike) for alike in numbers)  # no outline comes again
    for places in itertools.product(*[range(len(each.values)) for each in bound]):
        alike = places if are_different else tuple(map(operator.getitem, numbers, places))
        if are_different or alike not in outlines:
            if len(outlines) >= BLOCK or are_different:  # bounded, since a study may have as many setups as cases
                outlines.clear()
            if deciding and known[0] != (at := [places[i] for i, _, _ in deciding]):
                known = at, space.resolve(first | {name: values[places[i]] for i, name, values in deciding})
            rest = known[1]
            outlines[alike] = None
            if rest is not None:
                values = {**rest, **{name: column[places[i]] for i, name, column in free}}
                outlines[alike] = _outline(method.bind(values), patterns, bound, inner)
        found = outlines[alike]
        yield missing if found is None else found[0].fill(found[1], places)


def _outline(
    case: BoundCase, patterns: dict[tuple[object, ...], _Pattern], bound: Sequence[_KeyAxis], inner: Sequence[_KeyAxis]
) -> tuple[_Pattern, bytes]:
    """The pattern of a case, and its text without the entries of parameters along the axes."""
    plain, defaults = case.plain, case.defaults
    key = id(defaults) if defaults else 0, *plain
    if key not in patterns:
        if len(patterns) >= MAX_PATTERNS:
            patterns.clear()
        patterns[key] = _Pattern(plain, defaults, bound, inner)
    pattern = patterns[key]
    return pattern, text_hash(case.setup).encode() + pattern.outline % tuple(pattern.entries(plain))


class _Pattern:
    """The texts of cases with the same plain parameters and defaults.

    An outline is filled in three times: with the entries of a case, of a point of the bound axes, and of a point of the
    inner axes.  Each time doubles the signs of what comes later.
    """

    def __init__(self, plain: Values, defaults: Values, bound: Sequence[_KeyAxis], inner: Sequence[_KeyAxis]) -> None:
        self.defaults = defaults  # kept, so that no others have their number
        outer, last = ([name for each in axes for name in each.plain if name in plain] for axes in (bound, inner))
        signs = dict.fromkeys(outer, b"%%b") | dict.fromkeys(last, b"%%%%b")
        self.outline = b"".join([signs.get(name, b"%b") for name in sorted(plain)])
        self.entries = KnownTexts(
            sorted(plain.keys() - signs.keys()),
            lambda name, value: make_entry(name, value, defaults).replace(b"%", b"%%%%"),
        )
        self.has_outer = bool(outer)
        self.sort_outer, self.sort_last = _sorter(outer), _sorter(last)
        self.outer = [
            [tuple([entry.replace(b"%", b"%%") for entry in point]) for point in each.make_entries(plain, defaults)]
            for each in bound
        ]
        self.last = [each.make_entries(plain, defaults) for each in inner]
        self.kept = list(self._combine()) if math.prod(map(len, self.last)) <= SLAB else None

    def _combine(self) -> Iterator[tuple[bytes, ...]]:
        """The entries along the inner axes at each point, in C order."""
        return map(self.sort_last, map(itertools.chain.from_iterable, itertools.product(*self.last)))

    def fill(self, outline: bytes, places: Sequence[int]) -> Iterator[bytes]:
        """The texts of a point of the bound axes, from its outline."""
        found: tuple[bytes, ...] = ()
        if self.has_outer:
            found = self.sort_outer(itertools.chain.from_iterable(map(operator.getitem, self.outer, places)))
        return map((outline % found).__mod__, self.kept or self._combine())


def _sorter(names: Sequence[str]) -> Callable[[Iterable[bytes]], tuple[bytes, ...]]:
    """A function that sorts entries, one for each name, by these names."""
    places = sorted(range(len(names)), key=names.__getitem__)
    get: Any = operator.itemgetter(*places) if len(places) > 1 else tuple
    return tuple if places == list(range(len(names))) else lambda entries: get(tuple(entries))


Order = npt.NDArray[np.int64]
"""Numbers of all points of a space, each once."""
Work = npt.NDArray[np.float64]
"""Rough seconds of each case, in the shape of a space, with length one along axes without influence; NaN without a
case."""
OWN = "run"
"""The stage that no other case shares."""
MAX_COMBINATIONS = 1_000
"""Largest number of combinations for which the work is estimated, in 0.1 s.  With more, the work is unknown."""
MAX_COUNTED = 10_000
"""Largest number of cases for which shared stages are counted; of a larger study the first cases count."""
ALIKE = 8.0
"""Largest ratio of the longest to the shortest rough work for which seeds come in turn.  A batch of long runs that is
sized by the shortest run then takes 6 s instead of 0.7 s."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The cases of one phase."""

    phase: str
    spec: MethodSpec
    space: CaseSpace
    folder: str = ""
    """Folder for the folders and checkpoints of its runs; "" if it has no result."""
    resources: Resources | None = None
    """What its runs need, if the study says so."""
    needs: Needs | None = None
    """What each of the runs that are computed now needs."""

    @property
    def method(self) -> Method:
        """The method that runs the cases."""
        return load_method(self.spec)

    def case(self, index: int) -> Case | None:
        """Case number `index`; None if none is planned."""
        values = self.space.values(index)
        return None if values is None else Case(index, values, self.method.bind(values).key)

    @cached_property
    def keys(self) -> Keys:
        """The key of every case, by its number; empty if none is planned."""
        return run_keys(self.method, self.space)

    @property
    def runs(self) -> Order:
        """Numbers of the cases; of cases with equal keys, which share a run, only the first."""
        keys, first = np.unique(self.keys, return_index=True)
        return np.sort(first[keys != b""])

    @cached_property
    def work(self) -> Work | None:
        """Rough work of the cases; None if only running them shows it."""
        return case_work(self.method, self.space)

    @property
    def longest(self) -> float:
        """Rough seconds of the longest run; 0 if only running it shows it."""
        return 0.0 if self.work is None else float(np.nanmax(self.work))

    @property
    def order(self) -> Order:
        """All points, also without a case, in an order in which neighbours share early stages and long runs come first.

        If that costs little, seeds come one after the other, so that early results compare all setups.
        """
        order = longest_first(self.space, self.method.stage_parameters or (), self.work)
        return seed_by_seed(self.space, order) if self.in_turn else order

    @property
    def in_turn(self) -> bool:
        """True if seeds come in turn: they share no early stage, and runs take about the same time.

        Earlier runs decide the size of a batch, so a batch of long runs after short ones would be far too large.
        """
        leading, work = self.method.stage_parameters, self.work
        if leading is None or SEED not in self.space.names:
            return True
        if SEED not in leading or work is None or work.shape[self.space.names.index(SEED)] > 1:
            return False
        return bool(np.nanmax(work) <= ALIKE * np.nanmin(work))

    # block by block: the dictionaries of a million cases would take hundreds of MB
    def cases(self, numbers: Order | None = None) -> Iterator[Case]:
        """The cases of these numbers, in this order; by default all in `order`."""
        numbers = self.order if numbers is None else numbers
        for start in range(0, len(numbers), BLOCK):
            block = numbers[start : start + BLOCK]
            keys = self.keys[block].astype(str).tolist()
            for index, values, key in zip(block.tolist(), self.space.each(block), keys, strict=True):
                if values is not None:
                    yield Case(index, values, key)

    def trials(self, numbers: Order) -> Order:
        """The first of these cases for each user function."""
        if not isinstance(self.spec.method, Alternatives):
            # one case, or none: True counts as 1
            return numbers[: isinstance(self.spec.method, UserCode)]
        own = {label for label, part in self.spec.method.options if isinstance(part, UserCode)}
        (along,) = (number for number, name in enumerate(self.space.names) if name == METHOD)
        labels = [str(value) for value in self.space.axes[along].values]
        positions = np.unravel_index(numbers, self.space.shape)[along]
        different, first = np.unique(positions, return_index=True)
        return numbers[[at for position, at in zip(different, first, strict=True) if labels[position] in own]]

    @property
    def group(self) -> int:
        """Number of neighbouring cases that share their early stages: the product of the inner axes."""
        if self.method.stage_parameters is None:
            return 1
        leading = self.space.carriers(self.method.stage_parameters)
        return math.prod(len(axis.values) for axis in self.space.axes if axis.name not in leading)

    @property
    def count(self) -> int:
        """Number of cases."""
        return self.space.count


def phase_plan(study: Study, phase: Phase, chosen: Sequence[Chosen] = ()) -> Plan:
    """Plan one phase of the study, with the choices of earlier phases.

    With a target precision, every setup has the first batch of seeds, unless a table in `chosen` gives the seeds.
    """
    if phase.precision is not None and not any(SEED in each.names for each in chosen):
        chosen = [*chosen, phase.precision.first_seeds(phase.space)]
    return Plan(phase.name, study.spec, phase.space.with_chosen(*chosen), resources=study.resources)


def count_needs(study: Study) -> dict[Needs, int]:
    """Return the classes of needs of all phases, the smallest first, each with its largest number of runs in a phase.

    Array tasks name a class by its position.
    """
    found: dict[Needs, int] = {}
    resources = study.resources
    if resources is None:
        return found
    for plan in provisional_plans(study):
        for needs, count in Counter(resources.needs_of(case.values) for case in plan.cases()).items():
            found[needs] = max(count, found.get(needs, 0))
    return dict(sorted(found.items()))


def study_plan(study: Study, *chosen: Chosen) -> Plan:
    """The cases of the study's last phase."""
    return phase_plan(study, study.phases[-1], chosen)


# memory, order and rough work are needed before anything runs
def provisional_plans(study: Study) -> list[Plan]:
    """The plans of all phases before any has run, with stand-ins for their choices."""
    spaces = study.provisional_spaces()
    return [phase_plan(study, replace(phase, space=space)) for phase, space in zip(study.phases, spaces, strict=True)]


# A long run that begins last leaves the other workers idle: with one batch of 3 s among batches of 0.2 s, a study takes
# 5.2 s if it comes last and 3.7 s if it comes first.
def longest_first(space: CaseSpace, leading: Iterable[str], work: Work | None = None) -> Order:
    """Put the `leading` axes outermost, so that neighbours share what these determine, and costly groups first.

    A group is the cases with equal `leading` parameters.  It stays together and in its order, and so do groups that
    take equally long.  If a leading parameter follows from another axis by a rule or table, neighbours share less.
    """
    leading = space.carriers(leading)
    nesting = sorted(
        range(len(space.axes)),
        key=lambda i: leading.index(space.names[i]) if space.names[i] in leading else len(leading),
    )
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


def seed_by_seed(space: CaseSpace, order: Order) -> Order:
    """Put all cases of a seed before the next seed, each in the given order: early results compare all setups."""
    if SEED not in space.names:
        return order
    axis = space.names.index(SEED)
    number = order // math.prod(space.shape[axis + 1 :]) % space.shape[axis]
    return order[np.argsort(number, kind="stable")]


def case_work(method: Method, space: CaseSpace) -> Work | None:
    """Estimate the work of all cases; None if only running them shows it, or for more than `MAX_COMBINATIONS`.

    It depends on the axes among the method's `setup_parameters`, on the axes that such a parameter follows by rules,
    and on the axes that decide whether there is a case.
    """
    sizes = method.setup_parameters
    deciding = set(sizes).union(*map(space.dependence, sizes))
    deciding |= {name for choice in space.chosen for name in choice.over}
    deciding |= set(space.carriers(name for match in space.excluded for name in match))
    shape = tuple(len(axis.values) if axis.name in deciding else 1 for axis in space.axes)
    if math.prod(shape) > MAX_COMBINATIONS:
        return None
    found = np.full(shape, np.nan)
    for position in np.ndindex(shape):
        point = {axis.name: axis.values[i] for axis, i in zip(space.axes, position, strict=True)}
        values = space.resolve(point)
        if values is not None:
            work = work_of(method, values)
            if work is None:
                return None
            found[position] = work
    return None if np.isnan(found).all() else found


def work_of(method: Method, values: Values) -> float | None:
    """Rough seconds of a case; None if unknown.  A case with inconsistent parameters fails at once and counts as 0."""
    try:
        return method.bind(values).work
    except InputError:
        return 0.0


@dataclass(frozen=True)
class SharedWork:
    """Use of a stage in `cases` cases: how many need it for the `first` time, and how many in `all`, by rough work.

    growing: the second half of the cases needs results of the stage that the first half does not.
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


def shared_work(plan: Plan, limit: int = MAX_COUNTED, numbers: Order | None = None) -> list[SharedWork]:
    """Count the distinct computations of each stage in the first `limit` cases; `OWN` comes last.

    numbers: the cases that count; None: all.
    """
    needed: dict[str, dict[int, Hashable]] = {}  # by stage and case, the key
    works: list[float] = []
    known: dict[tuple[Value | None, ...], float] = {}
    sizes = plan.method.setup_parameters
    order = longest_first(plan.space, plan.method.stage_parameters or ())
    order = order if numbers is None else order[np.isin(order, numbers)]
    for values in itertools.islice((values for values in plan.space.each(order) if values is not None), limit):
        size = tuple(map(values.get, sizes))
        if size not in known:
            known[size] = work_of(plan.method, values) or 0.0
        for stage, key in (*plan.method.bind(values).stages.items(), (OWN, len(works))):
            needed.setdefault(stage, {})[len(works)] = key
        works.append(known[size])
    return [_shared(stage, keys, works) for stage, keys in sorted(needed.items(), key=lambda entry: entry[0] == OWN)]


def _shared(stage: str, keys: Mapping[int, Hashable], works: Sequence[float]) -> SharedWork:
    """Count the use of one stage that the cases need with these `keys`."""
    first: dict[Hashable, int] = {}
    for case, key in keys.items():
        first.setdefault(key, case)
    return SharedWork(
        stage,
        len(works),
        Counter(works[case] for case in first.values()),
        Counter(works[case] for case in keys),
        growing=max(first.values()) >= len(works) // 2,
    )


def peak_memory(plan: Plan) -> float:
    """Largest estimate of a run's bytes over the rules' combinations."""
    values = (plan.space.resolve(point) for point in plan.space.representatives(extra=plan.method.setup_parameters))
    return max((plan.method.bind(given).memory for given in values if given is not None), default=0.0)
