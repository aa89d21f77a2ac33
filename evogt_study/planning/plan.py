"""The plan of a phase: its cases, their identities, and the work that they share."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from evogt_study.methods.code import UserCode
from evogt_study.methods.loading import METHOD, load_method
from evogt_study.methods.protocol import Alternatives, Method, MethodSpec
from evogt_study.planning.case_keys import Keys, case_keys
from evogt_study.planning.case_work import Work, case_work, work_of
from evogt_study.planning.execution_order import Order, longest_first, seed_by_seed, sharing_order
from evogt_study.schema.records import Case
from evogt_study.schema.values import Value
from evogt_study.study.case_space import BLOCK, CaseSpace, Chosen
from evogt_study.study.phases import Phase
from evogt_study.study.precision import SEED
from evogt_study.study.study import Study

MAX_COUNTED = 10_000
"""Cases over which shared stages are counted one by one; a larger study is sampled from its start."""
ALIKE = 8.0
"""Ratio of the longest run's rough work to the shortest's up to which seeds come in turn: a batch of long runs that is
sized by the shortest then takes 6 s instead of 0.7."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The cases of one phase, which it names."""

    phase: str
    spec: MethodSpec
    space: CaseSpace

    @property
    def method(self) -> Method:
        """The method that runs the cases."""
        return load_method(self.spec)

    def case(self, index: int) -> Case | None:
        """Case number `index`, None where none is planned."""
        values = self.space.values(index)
        return None if values is None else Case(index, values, self.method.bind(values).key)

    @cached_property
    def keys(self) -> Keys:
        """The key of every case, by its number; empty where none is planned."""
        return case_keys(self.method, self.space)

    @property
    def runs(self) -> Order:
        """Numbers of the cases; of those that are the same run, which have one key, the first."""
        keys, first = np.unique(self.keys, return_index=True)
        return np.sort(first[keys != b""])

    @cached_property
    def work(self) -> Work | None:
        """Rough work of the cases; None where only running them shows it."""
        return case_work(self.method, self.space)

    @property
    def longest(self) -> float:
        """Rough seconds of the longest run; 0 where only running it shows it."""
        return 0.0 if self.work is None else float(np.nanmax(self.work))

    @property
    def order(self) -> Order:
        """All points, those without a case too, so that neighbours share early stages, and long runs come first.

        Where that costs little, seeds come one after the other, so that early results compare all cells.
        """
        order = longest_first(self.space, self.method.hints.leading or (), self.work)
        return seed_by_seed(self.space, order) if self.in_turn else order

    @property
    def in_turn(self) -> bool:
        """True where seeds come in turn: they share no early stage, and runs take about the same time.

        Batches are sized by the runs before, so that long runs after short ones would be far too many in one.
        """
        leading, work = self.method.hints.leading, self.work
        if leading is None or SEED not in self.space.names:
            return True
        if SEED not in leading or work is None or work.shape[self.space.names.index(SEED)] > 1:
            return False
        return bool(np.nanmax(work) <= ALIKE * np.nanmin(work))

    # keys and values block by block: the dictionaries of a million cases would take hundreds of megabytes
    def cases(self, numbers: Order | None = None) -> Iterator[Case]:
        """The cases of these numbers, in this order; all of `order` where none are given."""
        numbers = self.order if numbers is None else numbers
        for start in range(0, len(numbers), BLOCK):
            block = numbers[start : start + BLOCK]
            keys = self.keys[block].astype(str).tolist()
            for index, values, key in zip(block.tolist(), self.space.each(block), keys, strict=True):
                if values is not None:
                    yield Case(index, values, key)

    def trials(self, numbers: Order) -> Order:
        """Of these cases the first of each method that is the user's own."""
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
        """Number of neighbouring cases that share their early stages: the product of the axes that come after those."""
        if self.method.hints.leading is None:
            return 1
        leading = self.space.carriers(self.method.hints.leading)
        return math.prod(len(axis.values) for axis in self.space.axes if axis.name not in leading)

    @property
    def count(self) -> int:
        """Number of cases."""
        return self.space.count


@dataclass(frozen=True)
class SharedWork:
    """A stage in `cases` cases: how many need it for the `first` time, and how many in `all`, by their rough work.

    growing: whether the second half of the cases needs any that the first half does not.
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


OWN = "run"
"""The stage that each case has for itself."""


def shared_work(plan: Plan, limit: int = MAX_COUNTED, numbers: Order | None = None) -> list[SharedWork]:
    """Distinct computations of each stage, over the first `limit` cases, and `OWN` last.

    numbers: of the cases that count; None: all do.
    """
    needed: dict[str, dict[int, Hashable]] = {}  # by stage and case, the key
    works: list[float] = []
    known: dict[tuple[Value | None, ...], float] = {}
    hints = plan.method.hints
    order = sharing_order(plan.space, hints.leading or ())
    order = order if numbers is None else order[np.isin(order, numbers)]
    for values in itertools.islice((values for values in plan.space.each(order) if values is not None), limit):
        size = tuple(map(values.get, hints.sizes))
        if size not in known:
            known[size] = work_of(plan.method, values) or 0.0
        for stage, key in (*plan.method.bind(values).stages.items(), (OWN, len(works))):
            needed.setdefault(stage, {})[len(works)] = key
        works.append(known[size])
    return [_shared(stage, keys, works) for stage, keys in sorted(needed.items(), key=lambda entry: entry[0] == OWN)]


def _shared(stage: str, keys: Mapping[int, Hashable], works: Sequence[float]) -> SharedWork:
    """The stage that the cases need with these `keys`."""
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
    values = (plan.space.resolved(point) for point in plan.space.representatives(extra=plan.method.hints.sizes))
    return max((plan.method.bind(given).memory for given in values if given is not None), default=0.0)


def phase_plan(study: Study, phase: Phase, chosen: Sequence[Chosen] = ()) -> Plan:
    """The cases of one of the study's phases, with what earlier ones chose.

    Of a phase with a precision the first batch of every cell, unless a table in `chosen` says which seeds.
    """
    if phase.precision is not None and not any(SEED in each.names for each in chosen):
        chosen = [*chosen, phase.precision.first_seeds(phase.space)]
    return Plan(phase.name, study.spec, phase.space.with_chosen(*chosen))


def study_plan(study: Study, *chosen: Chosen) -> Plan:
    """The cases of the study's last phase."""
    return phase_plan(study, study.phases[-1], chosen)


# for what has to be known before anything runs: memory, order and rough work
def provisional_plans(study: Study) -> list[Plan]:
    """The plans of all phases before any has run, with stand-ins for what they choose."""
    spaces = study.provisional_spaces()
    return [phase_plan(study, replace(phase, space=space)) for phase, space in zip(study.phases, spaces, strict=True)]
