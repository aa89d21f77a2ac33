"""Estimators of sensitivity by name: the points that each is for, and the labelled numbers that it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from evogt_study.analysis.blocks import BOUND
from evogt_study.analysis.sensitivity.sampled import Sampled
from evogt_study.errors import InputError, ParameterError
from evogt_study.inference import polynomial_chaos
from evogt_study.inference import sensitivity as layouts
from evogt_study.inference import sensitivity as morris
from evogt_study.inference import sensitivity as sobol
from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array
from evogt_study.inference.sensitivity import Shares

PARAMETER, OTHER = "parameter", "other"
"""Dimensions of the indices: the parameter, and the other one of a pair."""
OUTPUTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "first_order": ((PARAMETER,), "first-order Sobol index"),
    "first_order_ci": ((PARAMETER, BOUND), "interval of the first-order Sobol index"),
    "total_order": ((PARAMETER,), "total Sobol index"),
    "total_order_ci": ((PARAMETER, BOUND), "interval of the total Sobol index"),
    "second_order": ((PARAMETER, OTHER), "second-order Sobol index"),
    "second_order_ci": ((PARAMETER, OTHER, BOUND), "interval of the second-order Sobol index"),
    "seed_share": ((), "share of the seed in the variance"),
    "seed_share_ci": ((BOUND,), "interval of the share of the seed"),
    "unexplained": ((), "share of the variance that the polynomials do not explain"),
    "mu": ((PARAMETER,), "mean elementary effect"),
    "mu_star": ((PARAMETER,), "mean magnitude of the elementary effects"),
    "mu_star_ci": ((PARAMETER, BOUND), "interval of the mean magnitude of the elementary effects"),
    "sigma": ((PARAMETER,), "standard deviation of the elementary effects"),
}
"""Dimensions and words of every number, by name."""
_SHARES = ("first_order", "first_order_ci", "total_order", "total_order_ci")
_SECOND, _SEED = ("second_order", "second_order_ci"), ("seed_share", "seed_share_ci")
_FIELDS = {name: name.replace("_order", "").replace("_share", "") for name in (*_SHARES, *_SECOND, *_SEED)}


@dataclass(frozen=True)
class Estimator:
    """An estimator.

    members: points of one of its units (a block, a trajectory, a point), zero where the sample is none of its own;
    outputs: names of its numbers for the sample; compute: values (L, n, R) -> those numbers (L, ...) and n_ok (L,).
    """

    members: Callable[[Sampled], int]
    outputs: Callable[[Sampled], tuple[str, ...]]
    compute: Callable[[Array, Sampled, Interval], tuple[list[Array], Array]]


def choose_estimator(name: str, sample: Sampled) -> tuple[str, Estimator]:
    """The estimator of that name; of none, the first of `ESTIMATORS` that the points are of.

    Raises ParameterError for a name that is none, InputError for points that are not of the estimator.
    """
    if name and name not in ESTIMATORS:
        raise ParameterError("method", f"one of {', '.join(ESTIMATORS)}", name)
    fitting = [each for each, estimator in ESTIMATORS.items() if estimator.members(sample)]
    if name and name not in fitting:
        raise InputError(
            f"`method` must be one of {', '.join(fitting)} for the points along {', '.join(sample.dims)}, which are no "
            f"design of {name}, got {name!r}"
        )
    found = name or fitting[0]
    return found, ESTIMATORS[found]


def _block(sample: Sampled) -> int:
    return layouts.saltelli_block(sample.points)


# A, B, D of AB_j, and D of BA_j, which second order alone needs (docs/statistics.md)
def _second_order(sample: Sampled) -> bool:
    return _block(sample) == 2 * len(sample.names) + 2


def _pooled(sample: Sampled) -> tuple[str, ...]:
    return _SEED if sample.seeds else ()


def _sobol(values: Array, sample: Sampled, how: Interval) -> tuple[list[Array], Array]:
    names = ESTIMATORS["saltelli"].outputs(sample)
    blocks = values.reshape(len(values), -1, _block(sample), values.shape[-1])
    return _stacked([sobol.indices(each, len(sample.names), how) for each in blocks], names)


def _polynomial_chaos(values: Array, sample: Sampled, how: Interval) -> tuple[list[Array], Array]:
    names = ESTIMATORS["polynomial_chaos"].outputs(sample)
    return _stacked(polynomial_chaos.indices(values, sample.points, how.confidence), names)


def _stacked(found: list[Shares], names: tuple[str, ...]) -> tuple[list[Array], Array]:
    fields = [_FIELDS.get(name, name) for name in names]
    columns = [np.array([getattr(each, field) for each in found], dtype=float) for field in fields]
    return columns, np.array([each.n_ok for each in found], dtype=float)


def _morris(values: Array, sample: Sampled, how: Interval) -> tuple[list[Array], Array]:
    """Effects of the mean over the seeds, of those that the whole trajectory has."""
    steps = len(sample.names) + 1
    paths = values.reshape(len(values), -1, steps, values.shape[-1])
    there = np.asarray(np.isfinite(paths).all(axis=2))
    sums = np.where(there[:, :, None], paths, 0.0).sum(axis=-1)
    counts = there.sum(axis=-1)[..., None]
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    found = [morris.effects(row.ravel(), sample.points, sample.levels, how) for row in means]
    columns = [np.array([getattr(each, name) for each in found]) for name in ("mu", "mu_star", "mu_star_ci", "sigma")]
    return columns, np.array([each.n_ok for each in found], dtype=float)


ESTIMATORS: Mapping[str, Estimator] = {
    "saltelli": Estimator(
        _block, lambda sample: (*_SHARES, *(_SECOND if _second_order(sample) else ()), *_pooled(sample)), _sobol
    ),
    "morris": Estimator(
        lambda sample: len(sample.names) + 1 if layouts.is_morris(sample.points) else 0,
        lambda sample: ("mu", "mu_star", "mu_star_ci", "sigma"),
        _morris,
    ),
    "polynomial_chaos": Estimator(
        lambda sample: 1, lambda sample: (*_SHARES, *_pooled(sample), "unexplained"), _polynomial_chaos
    ),
}
"""Estimators in the order in which they are tried: a design that was made for one is not left to another."""
