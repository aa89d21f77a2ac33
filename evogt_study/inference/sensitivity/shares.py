"""Sobol indices with their intervals, as all estimators return them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from evogt_study.inference.kernels import Array


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of D parameters and of the seed in the variance of a number; NaN where the number does not vary.

    first, total (D,): of E[Y | parameters], which is what is left when the seed is averaged out.  second (D, D): above
    the diagonal, NaN elsewhere.  seed (): E[Var(Y | parameters)], all that involves the seed.  Each with its interval,
    (..., 2).  unexplained: the share that the estimator does not see.  n_ok: blocks or points that all rests on.
    """

    first: Array
    first_ci: Array
    total: Array
    total_ci: Array
    second: Array
    second_ci: Array
    seed: Array
    seed_ci: Array
    unexplained: float
    n_ok: int


def unknown(parameters: int, n_ok: int) -> Shares:
    """NaN for everything, of a number that does not vary or has too few values."""
    shapes = {"first": (parameters,), "total": (parameters,), "second": (parameters, parameters), "seed": ()}
    found = {
        field.name: np.full((*shapes[name], 2) if field.name.endswith("_ci") else shapes[name], np.nan)
        for field in fields(Shares)
        if (name := field.name.removesuffix("_ci")) in shapes
    }
    return Shares(**found, unexplained=np.nan, n_ok=n_ok)
