"""The rough work of the cases of a plan, before any has run: by the axes that decide it, not case by case."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from evogt_study.errors import InputError
from evogt_study.methods.protocol import Method
from evogt_study.schema.values import Values
from evogt_study.study.case_space import CaseSpace

MAX_COMBINATIONS = 1_000
"""Combinations of axes on which work depends that are looked at, a tenth of a second; with more of them no case is
said to be longer."""

Work = npt.NDArray[np.float64]
"""Rough seconds of a case, over a space's shape with a length of one along axes on which they do not depend; NaN where
there is no case."""


def case_work(method: Method, space: CaseSpace) -> Work | None:
    """Work of all cases; None where only running them shows it, or there are more than `MAX_COMBINATIONS`.

    It depends on the axes among the method's `sizes`, on those that such a parameter follows by rules, and on those
    that decide where there is a case.
    """
    deciding = set(method.hints.sizes).union(*(space.dependence(name) for name in method.hints.sizes))
    deciding |= {name for choice in space.chosen for name in choice.over}
    deciding |= set(space.carriers(name for exclude in space.excluded for name in exclude.match))
    shape = tuple(len(axis.values) if axis.name in deciding else 1 for axis in space.axes)
    if math.prod(shape) > MAX_COMBINATIONS:
        return None
    found = np.full(shape, np.nan)
    for position in np.ndindex(shape):
        point = {axis.name: axis.values[i] for axis, i in zip(space.axes, position, strict=True)}
        values = space.resolved(point)
        if values is not None:
            work = work_of(method, values)
            if work is None:
                return None
            found[position] = work
    return None if np.isnan(found).all() else found


# a case whose parameters do not fit together fails at once: it counts as no work, not as unknown
def work_of(method: Method, values: Values) -> float | None:
    """Rough seconds of a case; none where the parameters do not fit together, which takes a run no time to find."""
    try:
        return method.bind(values).work
    except InputError:
        return 0.0
