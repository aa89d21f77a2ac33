"""What the cases of a plan cost, before any has run: by the axes that decide it, not case by case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evogt_study.errors import InputError
from evogt_study.methods.protocol import Method
from evogt_study.numerics.cost import NOTHING, Work, total
from evogt_study.planning.machine import Machine
from evogt_study.schema.values import Values
from evogt_study.study.case_space import CaseSpace

MAX_COMBINATIONS = 1_000
"""Combinations of axes on which costs depend that are looked at; with more of them no case is said to be longer."""

SAMPLED_CASES = 500


@dataclass(frozen=True, eq=False)
class CaseCosts:
    """Work of the cases of a space by stage; `works` are those of the combinations, in C order over `shape`.

    shape: as the space's, with one in place of the length of each axis on which costs do not depend.  A combination
    without a case has no stages.
    """

    shape: tuple[int, ...]
    works: tuple[Mapping[str, Work], ...]

    def seconds(self, machine: Machine) -> npt.NDArray[np.float64]:
        """Time of a case that shares nothing, of this shape; NaN where there is no case."""
        times = [machine.seconds(total(work.values())) if work else math.nan for work in self.works]
        return np.array(times).reshape(self.shape)

    def mean(self) -> Mapping[str, Work]:
        """Work of each stage in a case that shares nothing, on average over the combinations."""
        planned = [work for work in self.works if work]
        stages = {stage for work in planned for stage in work}
        return {stage: total(work.get(stage, NOTHING) for work in planned) * (1.0 / len(planned)) for stage in stages}


def case_costs(method: Method, space: CaseSpace) -> CaseCosts | None:
    """Costs of all cases; None where only running tells, or there are more than `MAX_COMBINATIONS`.

    They depend on the axes among the method's `sizes`, on those that such a parameter follows by rules, and on those
    that decide where there is a case.
    """
    deciding = set(method.sizes()).union(*(space.dependence(name) for name in method.sizes()))
    deciding |= {name for choice in space.chosen for name in choice.over}
    shape = tuple(len(axis.values) if axis.name in deciding else 1 for axis in space.axes)
    if math.prod(shape) > MAX_COMBINATIONS:
        return None
    works: list[Mapping[str, Work]] = []
    for position in np.ndindex(shape):
        point = {axis.name: axis.values[i] for axis, i in zip(space.axes, position, strict=True)}
        values = space.resolved(point)
        work = {} if values is None else costs_of(method, values)
        if work is None:
            return None
        works.append(work)
    return CaseCosts(shape, tuple(works)) if any(works) else None


def sampled_costs(method: Method, space: CaseSpace) -> CaseCosts | None:
    """Costs of some cases drawn from all, where there are too many combinations to look at each; None likewise."""
    numbers = np.random.default_rng(0).integers(space.size, size=SAMPLED_CASES)
    works = [{} if values is None else costs_of(method, values) for values in space.each(numbers)]
    known = tuple(work for work in works if work is not None)
    return CaseCosts((len(works),), known) if len(known) == len(works) and any(known) else None


def costs_of(method: Method, values: Values) -> Mapping[str, Work] | None:
    """The method's `costs`; no work where the parameters do not fit together, which takes a run no time to find."""
    try:
        return method.costs(values)
    except InputError:
        return {"run": NOTHING}
