"""Solutions on a uniform grid of the domain, labelled by its directions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.problem import Problem
from evogt_study.problems.grammar import SPACE
from evogt_study.schema.records import Datum


def fields(
    evaluate: Callable[[Array], Array], problem: Problem, times: Array, points: int
) -> tuple[dict[str, Datum], dict[str, Datum]]:
    """Numerical and, where known, exact solution on `points` per direction, boundary included, and the coordinates.

    evaluate: nodes (P, d) -> values at `times`, (S, P).
    """
    axes = problem.domain.axes(points)
    nodes = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    space = SPACE[: len(axes)]
    dims, shape = ("time", *space), (len(times), *map(len, axes))
    data = {"field": Datum(dims, evaluate(nodes).reshape(shape))}
    if problem.exact is not None:
        data["exact_field"] = Datum(dims, problem.exact(nodes, times).reshape(shape))
    return data, {name: Datum((name,), along) for name, along in zip(space, axes, strict=True)}
