"""Solutions on a uniform grid of the unit cube, labelled by its directions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.problem import SpaceTimeFunction
from evogt_study.problems.grammar import SPACE
from evogt_study.schema.records import Datum


def fields(
    evaluate: Callable[[Array], Array], exact: SpaceTimeFunction | None, times: Array, points: int, dimension: int
) -> tuple[dict[str, Datum], dict[str, Datum]]:
    """Numerical and, where known, exact solution on `points` per direction, boundary included, and the coordinates.

    evaluate: nodes (P, d) -> values at `times`, (S, P).
    """
    along = np.linspace(0.0, 1.0, points)
    nodes = np.stack([g.ravel() for g in np.meshgrid(*[along] * dimension, indexing="ij")], axis=1)
    dims = ("time", *SPACE[:dimension])
    shape = (len(times),) + (points,) * dimension
    data = {"field": Datum(dims, evaluate(nodes).reshape(shape))}
    if exact is not None:
        data["exact_field"] = Datum(dims, exact(nodes, times).reshape(shape))
    return data, {name: Datum((name,), along) for name in dims[1:]}
