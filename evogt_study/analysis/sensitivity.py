"""Sensitivity of a variable to the parameters of a sample, by the estimator that fits its points, and its table.

`shares_of_variance` answers the same question for axes: a nested analysis of variance of a full product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.analysis.reduce import (
    BOUND,
    COUNTS,
    NOTE,
    RUNS,
    IncompleteWarning,
    check_policy,
    dimensions,
    reduced,
    tell_missing_runs,
)
from evogt_study.analysis.runs import DRAWN, Numbers, numeric_variables, planned_runs
from evogt_study.analysis.samples import Sampled, design_of, sample_dimensions, sampled
from evogt_study.analysis.statistics import kept_coordinates
from evogt_study.analysis.summary_table import Question, select_runs
from evogt_study.analysis.tables import NumberFormat, rendered, rows
from evogt_study.errors import InputError, ParameterError, warn
from evogt_study.inference import polynomial_chaos
from evogt_study.inference import sensitivity as estimates
from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array, logarithms, without_infinite
from evogt_study.inference.polynomial_chaos import FEWEST_POINTS
from evogt_study.inference.sensitivity import Shares
from evogt_study.schema.variables import Status, status_codes

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
CORNER = ("failure_p", "failure_range")
INFINITE = "infinite"
FAILURE = "failure"
"""Name of the variable made from the status: 1 if a run is not ok, 0 if it is."""
SOURCE = "source"
SEED_SHARE = "seed_share"
COLUMNS = ("first_order", "first_order_ci", "total_order", "total_order_ci", "mu", "mu_star", "mu_star_ci", "sigma")
"""Numbers of a parameter, in the order of the columns; pairs of parameters have a table of their own."""


class CornerWarning(IncompleteWarning):
    """Failures depend on the parameters: indices are of the part of the sample in which runs succeed."""


def sensitivity(
    values: xr.DataArray,
    over: str | Iterable[str] | None = None,
    *,
    method: str = "",
    parameters: Sequence[str] | None = None,
    log: bool = False,
    interval: Interval = Interval(),
    missing: str = "warn",
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """Sobol indices of values over a sample's dimension, or elementary effects of Morris' trajectories.

    over: dimensions of the sample, and `seed` to pool the seeds (None: the dimension along which several parameters
    vary, and seed).  Several dimensions form a product; an axis is its own parameter.  parameters: use only these
    parameters along `over`.  log: use log(values).  The `status` counts as 1 if a run is not ok, else as 0, to find the
    parameters that explain failures.

    method: saltelli, morris or polynomial_chaos; "" chooses by the points: Saltelli's blocks, Morris' trajectories, or
    any others.  Formulas and sources: `evogt_study.inference.sensitivity`, docs/statistics.md.

    Returns a Dataset over `parameter` and the dimensions that are left, such as time: first_order and total_order of
    E[values | parameters], second_order (parameter, other) of blocks that have it, seed_share, all in parts of the
    whole variance and with intervals _ci (bound), and `unexplained`; or mu, mu_star, mu_star_ci, sigma.  With them
    n_ok of n_planned blocks, trajectories or points: those with a missing run are left out.  `note` says on which
    parameters failures depend, by failure_p and failure_range; then there is a CornerWarning too.  Of infinite
    values there are no indices: NaN, with a note.

    interval: confidence, and number and seed of resamples.  missing, planned: see `summary`.

    Raises InputError for unknown dimensions or parameters, and for points that are not of the method; ParameterError
    for an unknown method or policy.
    """
    values = _as_numbers(values, log)
    over = dimensions(values, _default_over(values) if over is None else over)
    check_policy(missing)
    sample = sampled(values, over, parameters)
    name, estimator = choose_estimator(method, sample)
    runs = planned_runs(values, planned)
    shape = (-1, len(sample.points), values.sizes[DRAWN] if sample.seeds else 1)
    members = estimator.members(sample)

    def on_samples(samples: Array, cells: Numbers) -> list[Array]:
        rows, there = samples.reshape(shape), (cells >= 0).reshape(shape)
        found, n_ok = estimator.compute(without_infinite(rows), sample, interval)
        units = there.any(axis=2).reshape(len(rows), -1, members).any(axis=2).sum(axis=1)
        known, infinite = ((each(rows) & there).sum(axis=(1, 2)) for each in (lambda a: ~np.isnan(a), np.isinf))
        counts = [each.astype(float) for each in (n_ok, units, known, there.sum(axis=(1, 2)), infinite)]
        lead = samples.shape[:-1]
        every = (*found, *_corners(rows, there, sample), *counts)
        return [each.reshape((*lead, *each.shape[1:])) for each in every]

    outputs = {each: OUTPUTS[each][0] for each in estimator.outputs(sample)}
    outputs |= {CORNER[0]: (PARAMETER,), CORNER[1]: (PARAMETER, BOUND), **dict.fromkeys((*COUNTS, *RUNS, INFINITE), ())}
    sizes = {PARAMETER: len(sample.names), OTHER: len(sample.names)}
    pooled = [*sample.dims, *([DRAWN] if sample.seeds else [])]
    found = reduced(values, pooled, on_samples, outputs, runs=runs, sizes=sizes)
    found = found.assign({each: found[each].astype(np.int64) for each in (*COUNTS, *RUNS)})
    found = _noted(tell_missing_runs(values, found, runs, missing), sample, missing)
    return _labelled(found, values, sample, pooled, name)


# a report draws unknown indices too, but the table of the command explains why there are none
def known(found: xr.Dataset, values: xr.DataArray) -> xr.Dataset:
    """Return `found`.  Raises InputError if it has no index because axes or values do not vary."""
    if found["first_order" if "first_order" in found else "mu"].notnull().any():
        return found
    dims = [dim for dim in found.attrs["over"].split(", ") if dim != DRAWN]
    points = math.prod(values.sizes[dim] for dim in dims)
    if points < FEWEST_POINTS and not any(design_of(values, dim) for dim in dims):
        raise InputError(
            f"`over` must name a sample of at least {FEWEST_POINTS} points, {', '.join(dims)} has {points}; axes of a "
            "few values have no sampled parameters"
        )
    numbers = _as_numbers(values, log=False)
    low, high = float(numbers.min()), float(numbers.max())
    if low == high and np.isfinite(low):
        raise InputError(f"`{numbers.name}` must vary to depend on parameters, all its values are {low:g}")
    return found


def _as_numbers(values: xr.DataArray, log: bool) -> xr.DataArray:
    """Return the values or their logarithms.  The status becomes 1 if a run is not ok, and NaN if it was not run."""
    if isinstance(values, xr.DataArray) and values.name == "run_status":
        codes = values.copy(data=status_codes(values))
        failed = (codes != Status.ok).where(codes != Status.not_run)
        values = failed.rename(FAILURE).assign_attrs(long_name="failure of the run", units="1")
    if log and isinstance(values, xr.DataArray):
        named = values.attrs | {"long_name": f"log of {values.attrs.get('long_name', values.name)}", "units": "1"}
        values = xr.apply_ufunc(lambda each: logarithms(each.astype(float)), values, dask="allowed").assign_attrs(named)
    return values


def _default_over(values: xr.DataArray) -> list[str]:
    """The sample's dimension, and seed.  Raises InputError where there is none, or no DataArray."""
    if not isinstance(values, xr.DataArray):
        raise InputError(f"`values` must be a DataArray, got a {type(values).__name__}; use e.g. ds.error")
    found = sample_dimensions(values)[:1]
    if not found:
        dims = ", ".join(map(str, values.dims)) or "none"
        raise InputError(f"`over` must be given where no dimension is of a sample ({dims}); use e.g. over={dims!r}")
    return [*found, *([DRAWN] if DRAWN in values.dims else [])]


def _corners(rows: Array, there: npt.NDArray[np.bool_], sample: Sampled) -> list[Array]:
    """p (L, D) and range (L, D, 2) of parameters on which it depends whether runs have a value; NaN of the others."""
    p = np.full((len(rows), len(sample.names)), np.nan)
    ends = np.full((*p.shape, 2), np.nan)
    lost = (there & np.isnan(rows)).sum(axis=2)
    masks = np.stack([2 * lost > there.sum(axis=2), there.any(axis=2)], axis=1)  # points that most seeds fail at
    kinds, kind = np.unique(masks, axis=0, return_inverse=True)  # mostly one: a run fails at all times, or at none
    for number, (lacking, planned) in enumerate(kinds):
        same = np.ravel(kind) == number
        for corner in estimates.corners(lacking[planned], sample.points[planned]):
            p[same, corner.parameter], ends[same, corner.parameter] = corner.p, (corner.lower, corner.upper)
    return [p, ends]


def _noted(found: xr.Dataset, sample: Sampled, missing: str) -> xr.Dataset:
    """The numbers with notes on failures in a corner, and a warning of the first of these."""
    p = found[CORNER[0]].transpose(..., PARAMETER)
    ends = found[CORNER[1]].transpose(..., PARAMETER, BOUND).values
    notes = np.full(p.shape[:-1], "", dtype=object)
    for place in np.ndindex(*notes.shape):
        notes[place] = _note(p.values[place], ends[place], sample)
    texts = [note for note in notes.ravel().tolist() if note]
    endless = found[INFINITE].transpose(*p.dims[:-1]).values > 0
    notes[endless] = [f"infinite values; {note}".removesuffix("; ") for note in notes[endless]]
    if texts and missing != "drop":
        text = f"{texts[0]}; indices are of the part of the sample where runs have a value"
        warn(text, CornerWarning)
    return found.drop_vars(INFINITE).assign({NOTE: (p.dims[:-1], notes)})


def _note(p: Array, ends: Array, sample: Sampled) -> str:
    """Description of the corner in which runs fail, by p (D,) and ranges (D, 2); empty where there is none."""
    which = [int(i) for i in np.argsort(p, kind="stable") if np.isfinite(p[i])]
    words = [[sample.describe(i, end) for end in ends[i]] for i in which]
    ranges = [
        f"{sample.names[i]} {low}" if low == high else f"{sample.names[i]} mostly from {low} to {high}"
        for i, (low, high) in zip(which, words, strict=True)
    ]
    return f"failures in a corner: {', '.join(ranges)} (p = {np.nanmin(p):.1g})" if ranges else ""


def _labelled(
    found: xr.Dataset, values: xr.DataArray, sample: Sampled, pooled: Sequence[str], method: str
) -> xr.Dataset:
    """The numbers with coordinates, and names that say what they are."""
    of, units = str(values.attrs.get("long_name", values.name)), str(values.attrs.get("units", "1"))
    words = {name: text for name, (_, text) in OUTPUTS.items()} | {
        CORNER[0]: "p of failures that do not depend on the parameter, where they do",
        CORNER[1]: "values of the parameter where runs fail, where failures depend on it",
        COUNTS[0]: "number of units that have all runs they need", COUNTS[1]: "number of units planned",
        NOTE: "doubts about the indices",
    }  # fmt: skip
    for name in map(str, found.data_vars):
        own = units if name in ("mu", "mu_star", "mu_star_ci", "sigma") else "1"
        found[name].attrs = {"long_name": f"{words[name]} of {of}", "units": own}
    names = list(sample.names)
    labels = {PARAMETER: names, BOUND: ["lower", "upper"]} | ({OTHER: names} if OTHER in found.dims else {})
    known = kept_coordinates(values, pooled)
    found = found.assign_coords({name: coord for name, coord in known.items() if name not in labels} | labels)
    return found.assign_attrs(method=method, over=", ".join(pooled))


@dataclass(frozen=True)
class Estimator:
    """An estimator of sensitivity.

    members: points of a unit (a block, a trajectory, a point), or zero if the sample does not fit; outputs: names of
    its numbers for the sample; compute: values (L, n, R) -> those numbers (L, ...) and n_ok (L,).
    """

    members: Callable[[Sampled], int]
    outputs: Callable[[Sampled], tuple[str, ...]]
    compute: Callable[[Array, Sampled, Interval], tuple[list[Array], Array]]


def choose_estimator(name: str, sample: Sampled) -> tuple[str, Estimator]:
    """Return the named estimator, or for "" the first of `ESTIMATORS` that fits the points.

    Raises ParameterError for an unknown name, InputError if the estimator does not fit the points.
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


def _sobol(values: Array, sample: Sampled, how: Interval) -> tuple[list[Array], Array]:
    names = ESTIMATORS["saltelli"].outputs(sample)
    blocks = values.reshape(len(values), -1, _block(sample), values.shape[-1])
    return _stacked([estimates.indices(each, len(sample.names), how) for each in blocks], names)


def _block(sample: Sampled) -> int:
    return estimates.saltelli_block(sample.points)


# A, B, D of AB_j, and D of BA_j, which second order alone needs (docs/statistics.md)
def _second_order(sample: Sampled) -> bool:
    return _block(sample) == 2 * len(sample.names) + 2


def _pooled(sample: Sampled) -> tuple[str, ...]:
    return _SEED if sample.seeds else ()


def _morris(values: Array, sample: Sampled, how: Interval) -> tuple[list[Array], Array]:
    """Effects of the mean over the seeds, of those that the whole trajectory has."""
    steps = len(sample.names) + 1
    paths = values.reshape(len(values), -1, steps, values.shape[-1])
    there = np.asarray(np.isfinite(paths).all(axis=2))
    sums = np.where(there[:, :, None], paths, 0.0).sum(axis=-1)
    counts = there.sum(axis=-1)[..., None]
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    found = [estimates.effects(row.ravel(), sample.points, sample.levels, how) for row in means]
    columns = [np.array([getattr(each, name) for each in found]) for name in ("mu", "mu_star", "mu_star_ci", "sigma")]
    return columns, np.array([each.n_ok for each in found], dtype=float)


def _polynomial_chaos(values: Array, sample: Sampled, how: Interval) -> tuple[list[Array], Array]:
    names = ESTIMATORS["polynomial_chaos"].outputs(sample)
    return _stacked(polynomial_chaos.indices(values, sample.points, how.confidence), names)


def _stacked(found: list[Shares], names: tuple[str, ...]) -> tuple[list[Array], Array]:
    fields = [_FIELDS.get(name, name) for name in names]
    columns = [np.array([getattr(each, field) for each in found], dtype=float) for field in fields]
    return columns, np.array([each.n_ok for each in found], dtype=float)


ESTIMATORS: Mapping[str, Estimator] = {
    "saltelli": Estimator(
        _block, lambda sample: (*_SHARES, *(_SECOND if _second_order(sample) else ()), *_pooled(sample)), _sobol
    ),
    "morris": Estimator(
        lambda sample: len(sample.names) + 1 if estimates.is_morris(sample.points) else 0,
        lambda sample: ("mu", "mu_star", "mu_star_ci", "sigma"),
        _morris,
    ),
    "polynomial_chaos": Estimator(
        lambda sample: 1, lambda sample: (*_SHARES, *_pooled(sample), "unexplained"), _polynomial_chaos
    ),
}
"""Estimators in the order of trial: each design goes to the estimator that it was made for."""


def shares_table(data: xr.Dataset, question: Question, over: tuple[str, ...] | None, log: bool = False) -> str:
    """The table of the sensitivity of the question's first variable over a sample (None: the one there is).

    Raises as `summary_table`, and InputError where there is no sample, or values that are all equal.
    """
    name = question.variables[0]
    variables = [*numeric_variables(data)]
    if name not in variables:
        raise InputError(f"`--sensitivity` must be one of {', '.join(variables)}, got {name!r}")
    values = select_runs(data[name], question.at)
    found = sensitivity(
        values, over, log=log, interval=question.interval, missing=question.missing,
        planned=select_runs(data["run_key"], question.at),
    )  # fmt: skip
    return sensitivity_table(
        largest_first(known(found, values)), question.form, replace(question.numbers, notation="plain")
    )


def sensitivity_table(found: xr.Dataset, form: str = "text", numbers: NumberFormat = NumberFormat(3, "plain")) -> str:
    """The tables of `sensitivity` in one of `FORMATS`, pairs of parameters below.

    The row `seed` has the share of the seed.  Lines below the text name the parameters on which failures depend, and
    the share that the polynomials do not explain.  Raises InputError for an unknown format.
    """
    rest = [str(dim) for dim in found["n_ok"].dims]
    kept = found[[name for name in COLUMNS if name in found]].transpose(*rest, ...)
    kept = _with_seed(kept, found) if SEED_SHARE in found else kept
    head, body = rows(_counted(kept, found, [PARAMETER]), [*rest, PARAMETER], numbers)
    parts = [rendered(head, [_without_first_order(head, row) for row in body], form)]
    if "second_order" in found:
        pairs = _pairs(found)
        if pairs.sizes[PARAMETER]:
            parts.append(rendered(*rows(_counted(pairs, found, [PARAMETER]), [*rest, PARAMETER], numbers), form))
    if form in ("text", "markdown"):
        parts += _told(found)
    return "\n\n".join(parts)


def largest_first(found: xr.Dataset) -> xr.Dataset:
    """The indices with the parameters in order of their largest total index, or mean magnitude of effects."""
    by = found["total_order" if "total_order" in found else "mu_star"]
    largest = by.max([dim for dim in by.dims if dim != PARAMETER]).fillna(-np.inf).values  # unknown ones last
    order = np.argsort(-largest, kind="stable")
    return found.isel({dim: order for dim in (PARAMETER, OTHER) if dim in found.dims})


def _with_seed(kept: xr.Dataset, found: xr.Dataset) -> xr.Dataset:
    """A further row, whose total is the share of the seed."""
    row = xr.full_like(kept.isel({PARAMETER: [0]}), np.nan).assign_coords({PARAMETER: [DRAWN]})
    row["total_order"] = found[SEED_SHARE].expand_dims({PARAMETER: [DRAWN]}, -1)
    row["total_order_ci"] = found[f"{SEED_SHARE}_ci"].expand_dims({PARAMETER: [DRAWN]}, -2)
    return xr.concat(
        [kept, row], PARAMETER, coords="minimal", compat="override", join="outer", combine_attrs="override"
    )


def _without_first_order(head: list[str], row: list[str]) -> list[str]:
    """Return the row, without first-order numbers for the seed: only its whole share is known."""
    if row[head.index(PARAMETER)] != DRAWN:
        return row
    return ["" if name.startswith("first_order") else text for name, text in zip(head, row, strict=True)]


def _pairs(found: xr.Dataset) -> xr.Dataset:
    """Second-order indices along one dimension of pairs, those that are known."""
    names = found[PARAMETER].values.tolist()
    upper = [(i, j) for i in range(len(names)) for j in range(len(names)) if bool(found["second_order"][
        {PARAMETER: i, OTHER: j}].notnull().any())]  # fmt: skip
    label = xr.Variable(PARAMETER, [f"{names[i]}, {names[j]}" for i, j in upper])
    first, second = (
        xr.Variable(PARAMETER, np.array(each, dtype=int)) for each in ([i for i, _ in upper], [j for _, j in upper])
    )
    data = found[["second_order", "second_order_ci"]].drop_vars([PARAMETER, OTHER])
    rest = [str(dim) for dim in found["n_ok"].dims]
    data = data.isel({PARAMETER: first, OTHER: second}).assign_coords({PARAMETER: label})
    return data.transpose(*rest, PARAMETER, BOUND)


def _counted(data: xr.Dataset, found: xr.Dataset, own: list[str]) -> xr.Dataset:
    """The numbers with the counts of `found` at every parameter."""
    sizes = {name: data.sizes[name] for name in own}
    return data.assign({name: found[name].expand_dims(sizes, range(-len(own), 0)) for name in COUNTS})


def _told(found: xr.Dataset) -> list[str]:
    """Return the notes on failures, each once, and the unexplained share."""
    lines = [note for note in dict.fromkeys(np.ravel(found[NOTE].values).tolist()) if note]
    if "unexplained" in found and bool(np.isfinite(found["unexplained"]).any()):
        low, high = (float(each) for each in (found["unexplained"].min(), found["unexplained"].max()))
        share = f"{high:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"
        lines.append(f"not explained by the polynomials, and in the intervals: {share} of the variance")
    return ["\n".join(lines)] if lines else []


def shares_of_variance(
    values: xr.DataArray,
    parameters: Sequence[str] | None = None,
    over: str = "seed",
    *,
    logarithms: bool = True,
    interval: Interval = Interval(),
) -> xr.Dataset:
    """Shares of parameters and seeds in the variance of the values: a nested analysis of variance.

    parameters: dimensions from the outermost in, each nested in the dimensions before it (default: all except `over`).
    A share is the variance component of a dimension over the sum of all components.  The last source is `over`.  With
    `logarithms`, the components of log(values): factors instead of differences.

    Returns a Dataset over the dimensions that are left: share, share_ci (source, bound), components (source), and
    n_ok, the units with a value at every point, of n_planned.  Only these units are used.  Intervals treat the values
    of the parameters as fixed and the units as a sample.  With infinite values the shares are NaN.

    Raises InputError for unknown dimensions, fewer than three such units, or values that have no logarithm.
    """
    dims = dimensions(values, [*(parameters or [d for d in map(str, values.dims) if d != over]), over])
    rest = [str(dim) for dim in values.dims if dim not in dims]
    table = values.transpose(*rest, *dims).astype(float)
    numbers = table.values
    if logarithms and (numbers <= 0.0).any():
        raise InputError(f"`{values.name}` must be positive to have logarithms, it is not; use logarithms=False")
    numbers = np.log(numbers) if logarithms else numbers
    shape = numbers.shape[: len(rest)]
    found = [
        np.full((*shape, len(dims)), np.nan),
        np.full((*shape, len(dims), 2), np.nan),
        np.full((*shape, len(dims)), np.nan),
    ]
    counts = np.zeros(shape, dtype=np.int64)
    for place in np.ndindex(*shape):
        there = ~np.isnan(numbers[place]).reshape(-1, numbers.shape[-1]).any(axis=0)
        counts[place] = there.sum()
        if counts[place] < 3:
            raise InputError(f"`over` must have at least three points with a value everywhere, got {counts[place]}")
        complete = numbers[place][..., there]
        if np.isinf(complete).any():
            continue
        found[0][place] = estimates.shares(complete)
        found[1][place] = estimates.share_intervals(complete, interval.confidence)
        found[2][place] = estimates.components(complete)
    data = xr.Dataset(
        {
            "share": ((*rest, SOURCE), found[0]), "share_ci": ((*rest, SOURCE, BOUND), found[1]),
            "component": ((*rest, SOURCE), found[2]), "n_ok": (rest, counts),
            "n_planned": (rest, np.full(shape, numbers.shape[-1])),
        },
        {SOURCE: dims, BOUND: ["lower", "upper"]},
    )  # fmt: skip
    return data.assign_coords(kept_coordinates(values, dims))
