"""The order in which cases are computed: neighbours share early stages, long runs come first, and seeds in turn."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from evogt_study.study.case_space import CaseSpace
from evogt_study.study.precision import SEED

Order = npt.NDArray[np.int64]
"""Numbers of all points of a space, each once."""


def sharing_order(space: CaseSpace, leading: Iterable[str]) -> Order:
    """Put the `leading` axes outermost, so that neighbours share what those parameters determine.

    An axis on which another parameter depends through a table or a rule counts as that parameter only in so far as it
    is listed itself: neighbours may then differ in it, and share less.
    """
    points = np.arange(space.size, dtype=np.int64).reshape(space.shape)
    return points.transpose(_nesting(space, leading)).ravel()


# a long run that begins last keeps all other workers idle: one 3 s batch among 0.2 s ones ends after 5.2 s if it comes
# last, after 3.7 s if it comes first
def longest_first(space: CaseSpace, leading: Iterable[str], work: npt.NDArray[np.float64] | None) -> Order:
    """Put groups of costly cases before others in the `sharing_order`.

    work: of a case, over the space's shape or with a length of one along axes on which it does not depend; NaN where
    there is no case, None where nothing is known.  A group is what shares its early stages, the cases with equal
    `leading` parameters.  It stays together, in its order, and so do groups that take equally long.
    """
    leading = space.carriers(leading)
    order = sharing_order(space, leading)
    if work is None:
        return order
    inner = tuple(number for number, axis in enumerate(space.axes) if axis.name not in leading)
    groups = np.nansum(work, axis=inner, keepdims=True)
    shape = tuple(1 if number in inner else length for number, length in enumerate(space.shape))
    along = np.broadcast_to(-groups, shape).transpose(_nesting(space, leading)).ravel()
    # stable, so that groups that take equally long stay in the order in which they share stages
    first = np.argsort(along, kind="stable")
    return order.reshape(len(along), -1)[first].ravel()


def seed_by_seed(space: CaseSpace, order: Order) -> Order:
    """Put all cases of a seed before those of the next, each in the given order: early results compare all cells."""
    if SEED not in space.names:
        return order
    axis = space.names.index(SEED)
    number = order // math.prod(space.shape[axis + 1 :]) % space.shape[axis]
    return order[np.argsort(number, kind="stable")]


def _nesting(space: CaseSpace, leading: Iterable[str]) -> tuple[int, ...]:
    """Numbers of the axes, outermost first."""
    rank = {name: position for position, name in enumerate(space.carriers(leading))}
    return tuple(sorted(range(len(space.axes)), key=lambda i: (rank.get(space.axes[i].name, len(rank)), i)))
