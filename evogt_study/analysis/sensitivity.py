"""Shares of parameters and seeds in the variance of a variable: axes of a grid, or parameters of a sample.

Both use one mechanism (`inference.variance_components`) with seeds as units, and know whether seeds are common streams.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.analysis.design import GIVEN, Design, Sampled, design_of, sample_dimensions, sampled
from evogt_study.analysis.reduce import (
    BOUND,
    COUNTS,
    NOTE,
    RUNS,
    IncompleteWarning,
    check_options,
    check_policy,
    dimensions,
    reduced,
    tell_missing_runs,
)
from evogt_study.analysis.runs import DRAWN, Numbers, numeric_variables, planned_runs
from evogt_study.analysis.statistics import kept_coordinates
from evogt_study.analysis.summary_table import Question, select_runs
from evogt_study.analysis.tables import NumberFormat, rendered, rows
from evogt_study.errors import InputError, warn
from evogt_study.inference import sensitivity as estimates
from evogt_study.inference import variance_components as components
from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array, logarithms, without_infinite
from evogt_study.inference.polynomial_chaos import MIN_POINTS, Bases, moments_of_fit, shapley_effects
from evogt_study.inference.variance_components import UNKNOWN, Moments, Part
from evogt_study.schema.variables import GEOMETRIC_MEAN, Status, declared_attributes, status_codes

PARAMETER, OTHER, SOURCE, AXIS = "parameter", "other", "source", "axis"
RUN, MEAN = "run", "mean"
"""Estimands: shares of the variance of one run with a fresh seed, or of the mean over the seeds."""
SALTELLI, MORRIS, CHAOS, SHAPLEY = "saltelli", "morris", "polynomial_chaos", "shapley"
METHODS = (SALTELLI, MORRIS, CHAOS, SHAPLEY)
OUTPUTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "first_order": ((PARAMETER,), "first-order Sobol index"),
    "total": ((PARAMETER,), "total Sobol index"),
    "shapley": ((PARAMETER,), "Shapley effect"),
    "second_order": ((PARAMETER, OTHER), "second-order Sobol index"),
    "seed_share": ((), "share of the seed in the variance"),
    "unexplained": ((), "share of the variance that the polynomials do not explain"),
    "mu": ((PARAMETER,), "mean elementary effect"),
    "mu_star": ((PARAMETER,), "mean magnitude of the elementary effects"),
    "sigma": ((PARAMETER,), "standard deviation of the elementary effects"),
}
"""Dimensions and words of every number, by name; an interval has the name of its number and _ci."""
WITHOUT_INTERVAL = ("unexplained", "mu", "sigma")
CORNER = ("failure_p", "failure_range")
INFINITE = "infinite"
FAILURE = "failure"
"""Name of the variable made from the status: 1 if a run is not ok, 0 if it is."""
SEED_SHARE = "seed_share"
COLUMNS = (
    "first_order", "first_order_ci", "total", "total_ci", "shapley", "shapley_ci", "mu", "mu_star", "mu_star_ci",
    "sigma",
)  # fmt: skip
"""Numbers of a parameter, in the order of the columns; pairs of parameters have a table of their own."""


class CornerWarning(IncompleteWarning):
    """Failures depend on the parameters: indices are of the part of the sample in which runs succeed."""


def sensitivity(
    values: xr.DataArray,
    over: str | Iterable[str] | None = None,
    *,
    method: str = "",
    estimand: str = RUN,
    parameters: Sequence[str] | None = None,
    log: bool = False,
    interval: Interval = Interval(),
    missing: str = "warn",
    planned: xr.DataArray | None = None,
    design: Design | None = None,
) -> xr.Dataset:
    """Return Sobol indices over a sample, Shapley effects, or elementary effects of Morris' trajectories.

    Parameters
    ----------
    values : DataArray
        Values of one variable.  The `status` counts as 1 if a run is not ok, else as 0, to find the parameters that
        explain failures.
    over : str or list of str, optional
        Dimensions of the sample, and `seed` to pool the seeds.  Default: the dimension along which several parameters
        change, and seed.  Several dimensions form a product.  An axis is its own parameter.
    method : {"saltelli", "morris", "polynomial_chaos", "shapley"}, optional
        Default: Saltelli's blocks or Morris' trajectories if the points are these, else polynomial chaos.  shapley also
        suits parameters that depend on each other.
    estimand : {"run", "mean"}, default "run"
        Shares of the variance of one run with a fresh seed, or of the mean over the seeds.
    parameters : list of str, optional
        Use only these parameters along `over`.
    log : bool, default False
        Use log(values).
    interval : Interval
        Confidence of the intervals; number and seed of the resamples of elementary effects.
    missing, planned
        As in `evs.summary`.
    design : Design, optional
        Design of the study, by default `Design.of(values)`.  `Design.of(values, common=...)` states the streams.

    Returns
    -------
    xarray.Dataset
        Along `parameter`: first_order(_ci) and total(_ci), or shapley(_ci) and first_order(_ci), or mu, mu_star(_ci)
        and sigma; second_order(_ci) of blocks that have it; seed_share(_ci), unexplained, note, n_ok of n_planned
        blocks, trajectories or points.

    Raises
    ------
    InputError
        For unknown dimensions or parameters, points that are not of the method, and dependent parameters.
    ParameterError
        For an unknown option.

    Warns
    -----
    CornerWarning
        If failures depend on the parameters.  The indices are of the part of the sample where runs have a value.
    """
    values = _as_numbers(values, log)
    over = dimensions(values, _default_over(values) if over is None else over)
    check_policy(missing)
    check_options(estimand=(estimand, (RUN, MEAN)))
    design = design or Design.of(values, planned=planned)
    sample = sampled(values, over, parameters)
    return _sensitivity(values, sample, design, method, estimand == RUN, interval, missing, planned)


def _sensitivity(
    values: xr.DataArray, sample: Sampled, design: Design, method: str, of_run: bool, interval: Interval, missing: str,
    planned: xr.DataArray | None,
) -> xr.Dataset:  # fmt: skip
    """`sensitivity` of a sample."""
    name = choose_method(method, sample)
    notes = _check_independent(values, sample, design, name)
    fresh = design.is_fresh(sample.dims) if sample.seeds else False
    estimator = _Estimator(sample, name, fresh, of_run, interval)
    runs = planned_runs(values, planned)
    shape = (-1, len(sample.points), values.sizes[DRAWN] if sample.seeds else 1)

    def on_samples(samples: Array, cells: Numbers) -> list[Array]:
        rows, there = samples.reshape(shape), (cells >= 0).reshape(shape)
        found = estimator.compute(without_infinite(rows))
        units = there.any(axis=2).reshape(len(rows), -1, estimator.members).any(axis=2).sum(axis=1)
        known, infinite = ((each(rows) & there).sum(axis=(1, 2)) for each in (lambda a: ~np.isnan(a), np.isinf))
        counts = [each.astype(float) for each in (units, known, there.sum(axis=(1, 2)), infinite)]
        every = (*found, *_corners(rows, there, sample), *counts)
        return [each.reshape((*samples.shape[:-1], *each.shape[1:])) for each in every]

    outputs = {**estimator.outputs, "n_ok": (), CORNER[0]: (PARAMETER,), CORNER[1]: (PARAMETER, BOUND)}
    outputs |= dict.fromkeys(("n_planned", *RUNS, INFINITE), ())
    sizes = {PARAMETER: len(sample.names), OTHER: len(sample.names)}
    pooled = [*sample.dims, *([DRAWN] if sample.seeds else [])]
    found = reduced(values, pooled, on_samples, outputs, runs=runs, sizes=sizes)
    found = found.assign({each: found[each].astype(np.int64) for each in (*COUNTS, *RUNS)})
    rules = {each.rule for each in design.samples if each.dim in sample.dims}
    if name == CHAOS and "sobol" in rules and len(sample.names) > 3:
        notes.append("Sobol points can show an interaction of four parameters as one of fewer")
    notes += [] if not sample.seeds or name == SHAPLEY else list(design.stream_assumptions)
    notes += estimator.notes
    found = _noted(tell_missing_runs(values, found, runs, missing), sample, missing, [*notes, *design.assumptions])
    return _labelled(found, values, sample, pooled, name)


def choose_method(method: str, sample: Sampled) -> str:
    """Return the method, or for "" the one that the points are made for.

    Raises ParameterError for an unknown name, InputError if the method does not suit the points.
    """
    check_options(method=(method, ("", *METHODS)))
    fitting = [CHAOS, SHAPLEY]
    if estimates.is_morris(sample.points):
        fitting.insert(0, MORRIS)
    if estimates.saltelli_block(sample.points):
        fitting.insert(0, SALTELLI)
    if method and method not in fitting:
        message = f"one of {', '.join(fitting)} for the points along {', '.join(sample.dims)}"
        raise InputError(f"`method` must be {message}, which are no design of {method}, got {method!r}")
    return method or fitting[0]


def _check_independent(values: xr.DataArray, sample: Sampled, design: Design, method: str) -> list[str]:
    """Return notes on the independence of the parameters.  Raises InputError if they depend on each other."""
    notes, rules = [], {each.dim: each.rule for each in design.samples}
    planned = design.planned.any(DRAWN) if DRAWN in design.planned.dims else design.planned
    planned = planned.any([dim for dim in planned.dims if dim not in sample.dims]).transpose(*sample.dims)
    kept = planned.values.reshape(-1)
    odd = estimates.excluded_inside(sample.points, kept)
    reason = (
        f"{', '.join(sample.names)} depend on each other: {odd} points inside their values are excluded" if odd else ""
    )
    places = np.indices(tuple(values.sizes[dim] for dim in sample.dims)).reshape(len(sample.dims), -1)
    for number, dim in enumerate(sample.dims):
        own = [i for i, name in enumerate(sample.names) if sample.along[name] == dim]
        if len(own) < 2 or rules.get(dim, "unstated") not in GIVEN:
            continue
        _, first = np.unique(places[number][kept], return_index=True)
        points, names = sample.points[kept][first][:, own], [sample.names[i] for i in own]
        reason = reason or estimates.dependence(points, names)
        if not reason and method != SHAPLEY:
            least = estimates.detectable_correlation(len(points), len(names))
            notes.append(f"independence of {', '.join(names)} is tested, correlations below {least:.2f} may pass")
    if reason and method not in (SHAPLEY, MORRIS):
        raise InputError(f'{reason}. Sobol indices need independent parameters. Use method="shapley".')
    return [reason, *notes] if reason else notes


class _Estimator:
    """The estimator of a sample: names and dimensions of its numbers, and how they are computed.

    members: points of a unit (a block, a trajectory, a point).  notes: findings of the computation.
    """

    def __init__(self, sample: Sampled, method: str, fresh: bool, of_run: bool, how: Interval) -> None:
        self.sample, self.method, self.fresh, self.of_run, self.how = sample, method, fresh, of_run, how
        self.notes: list[str] = []
        d = len(sample.names)
        block = estimates.saltelli_block(sample.points) if method == SALTELLI else 0
        self.members = {SALTELLI: block, MORRIS: d + 1}.get(method, 1)
        self.pairs = [(j, k) for j in range(d) for k in range(j + 1, d)] if block == 2 * d + 2 else []
        self.seeded = sample.seeds and of_run
        names = {
            SALTELLI: ["first_order", "total", *(["second_order"] if self.pairs else [])],
            CHAOS: ["first_order", "total", "unexplained"], SHAPLEY: ["shapley", "first_order"],
            MORRIS: ["mu", "mu_star", "sigma"],
        }[method]  # fmt: skip
        self.names = [*names, *([SEED_SHARE] if self.seeded and method in (SALTELLI, CHAOS) else [])]
        self.bases: dict[bytes, Bases] = {}

    @property
    def outputs(self) -> dict[str, tuple[str, ...]]:
        """Dimensions of the numbers and of their intervals."""
        found: dict[str, tuple[str, ...]] = {}
        for name in self.names:
            found[name] = OUTPUTS[name][0]
            if name not in WITHOUT_INTERVAL:
                found[f"{name}_ci"] = (*OUTPUTS[name][0], BOUND)
        return found

    def compute(self, values: Array) -> list[Array]:
        """Numbers and intervals in the order of `outputs`, then n_ok, of values (L, n, R)."""
        cells = [self._morris(each) if self.method == MORRIS else self._parts(each) for each in values]
        return [np.array([cell[name] for cell in cells], dtype=float) for name in [*self.outputs, "n_ok"]]

    def _empty(self, n_ok: int) -> dict[str, Any]:
        sizes = dict.fromkeys((PARAMETER, OTHER), len(self.sample.names)) | {BOUND: 2}
        found = {name: np.full([sizes[dim] for dim in dims], np.nan) for name, dims in self.outputs.items()}
        return {**found, "n_ok": n_ok}

    def _parts(self, y: Array) -> dict[str, Any]:
        """Sobol indices or Shapley effects of values (n, R)."""
        known = np.asarray(np.isfinite(y).any(axis=1))
        found = self._empty(int(known.reshape(-1, self.members).any(axis=1).sum()))
        seeds = np.isfinite(y).any(axis=0)
        if not components.varies(y) or (self.method != SALTELLI and known.sum() < MIN_POINTS):
            return found
        if self.method == SHAPLEY:
            means = np.nanmean(y[known], axis=1)
            effects, alone = shapley_effects(self.sample.points[known], means, self.how.confidence)
            for name, parts in (("shapley", effects), ("first_order", alone)):
                _put(found, name, parts)
            return found
        whole = np.full((len(y), int(seeds.sum())), np.nan)
        kept = y[known][:, seeds]
        whole[known] = components.fill(kept, common=not self.fresh, least=1)
        runs = 1.0 / float((1.0 / np.isfinite(kept).sum(axis=1)).mean())
        moments, unseen = self._moments(whole, known, runs)
        if moments is None:
            return found
        if self.fresh and whole.shape[1] > 1 and (p := components.common_effect_p(whole[known])) < 1e-3:
            message = f"seeds have an effect in common (p = {max(p, 1e-16):.1g}), although streams are independent"
            self.notes += [message] if message not in self.notes else []
        *parts, seed = moments.shares(fresh=self.fresh, of_run=self.of_run, confidence=self.how.confidence)
        d = len(self.sample.names)
        _put(found, "first_order", parts[:d])
        _put(found, "total", parts[d : 2 * d])
        for (j, k), part in zip(self.pairs, parts[2 * d :], strict=True):
            found["second_order"][j, k], found["second_order_ci"][j, k] = part.value, part[1:]
        if SEED_SHARE in found and whole.shape[1] > 1:
            found[SEED_SHARE], found[f"{SEED_SHARE}_ci"] = np.array(seed.value), np.array(seed[1:])
        if "unexplained" in found:
            total = moments.variance + self.of_run * moments.seed
            found["unexplained"] = np.array(unseen / total if total > 0.0 else np.nan)
        return found | {"n_ok": moments.n_ok}

    def _moments(self, y: Array, known: npt.NDArray[np.bool_], runs: float) -> tuple[Moments | None, float]:
        d = len(self.sample.names)
        if self.method == SALTELLI:
            return estimates.moments_of_blocks(y.reshape(-1, self.members, y.shape[1]), d), 0.0
        mask = known.tobytes()
        if mask not in self.bases:
            self.bases = {mask: Bases(self.sample.points[known])}  # one, since a run mostly fails at all times or none
        return moments_of_fit(self.bases[mask], d, y[known], runs, fresh=self.fresh)

    def _morris(self, y: Array) -> dict[str, Any]:
        """Elementary effects of the mean over the seeds, of the seeds that the whole trajectory has."""
        paths = y.reshape(-1, self.members, y.shape[1])
        there = np.asarray(np.isfinite(paths).all(axis=1))
        sums, counts = np.where(there[:, None], paths, 0.0).sum(axis=-1), there.sum(axis=-1)[:, None]
        means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
        made = estimates.effects(means.ravel(), self.sample.points, self.sample.levels, self.how)
        return {name: getattr(made, name) for name in ("mu", "mu_star", "mu_star_ci", "sigma", "n_ok")}


def _put(found: dict[str, Any], name: str, parts: Sequence[Part]) -> None:
    table = np.array(parts, dtype=float)
    found[name], found[f"{name}_ci"] = table[:, 0], table[:, 1:]


# a report draws unknown indices too, but the table of the command explains why there are none
def known(found: xr.Dataset, values: xr.DataArray) -> xr.Dataset:
    """Return `found`.  Raises InputError if it has no index because axes or values do not vary."""
    if found["first_order" if "first_order" in found else "mu"].notnull().any():
        return found
    dims = [dim for dim in found.attrs["over"].split(", ") if dim != DRAWN]
    points = math.prod(values.sizes[dim] for dim in dims)
    if points < MIN_POINTS and not any(design_of(values, dim) for dim in dims):
        raise InputError(
            f"`over` must name a sample of at least {MIN_POINTS} points, {', '.join(dims)} has {points}; axes of a "
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


def _noted(found: xr.Dataset, sample: Sampled, missing: str, more: Sequence[str]) -> xr.Dataset:
    """The numbers with notes on failures in a corner and with `more` notes, and a warning of the first corner."""
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
    for place in np.ndindex(*notes.shape):
        notes[place] = "; ".join(filter(None, [str(notes[place]), *more]))
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
    words = {name: text for name, (_, text) in OUTPUTS.items()}
    words |= {f"{name}_ci": f"interval of the {text}" for name, text in words.items()} | {
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
    by = found["total" if "total" in found else "mu_star"]
    largest = by.max([dim for dim in by.dims if dim != PARAMETER]).fillna(-np.inf).values  # unknown ones last
    order = np.argsort(-largest, kind="stable")
    return found.isel({dim: order for dim in (PARAMETER, OTHER) if dim in found.dims})


def _with_seed(kept: xr.Dataset, found: xr.Dataset) -> xr.Dataset:
    """A further row, whose total is the share of the seed."""
    row = xr.full_like(kept.isel({PARAMETER: [0]}), np.nan).assign_coords({PARAMETER: [DRAWN]})
    row["total"] = found[SEED_SHARE].expand_dims({PARAMETER: [DRAWN]}, -1)
    row["total_ci"] = found[f"{SEED_SHARE}_ci"].expand_dims({PARAMETER: [DRAWN]}, -2)
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


def variance_shares(
    values: xr.DataArray,
    axes: Sequence[str] | None = None,
    over: str = DRAWN,
    *,
    estimand: str = RUN,
    order: int = 2,
    log: bool | None = None,
    confidence: float = 0.95,
    planned: xr.DataArray | None = None,
    design: Design | None = None,
) -> xr.Dataset:
    """Return the shares of crossed axes, their interactions and the seeds in the variance of a variable.

    Parameters
    ----------
    values : DataArray
        Values over a full grid of axes and seeds.
    axes : list of str, optional
        Axes of the grid, by default all dimensions except `over`.  Other dimensions stay.
    over : str, default "seed"
        Dimension of the seeds.
    estimand : {"run", "mean"}, default "run"
        Shares of the variance of one run with a fresh seed, or of the mean over the seeds.
    order : int, default 2
        Largest number of axes of an interaction.  The others are the source "higher".
    log : bool, optional
        Use log(values).  Default: if the variable declares the geometric mean as its estimand.
    confidence : float, default 0.95
        Confidence of the intervals.
    planned, design
        As in `evs.sensitivity`.

    Returns
    -------
    xarray.Dataset
        Along `source` ("a", "b", "a:b", "higher", "seed", then "seed:setups" for common streams, else "run"):
        share(_ci) and component.  Along `axis`: total(_ci), the share of all sources with this axis, without the seeds.
        n_ok of n_planned runs, and note.

    Raises
    ------
    InputError
        For a sample instead of axes, a grid with excluded setups, and a setup with fewer than two values.

    Notes
    -----
    The population has the listed values of each axis with equal weight, and fresh seeds.  The order of the dimensions
    does not matter.

    Examples
    --------
    >>> x = xr.DataArray([[0.0, 0.1, 0.2], [3.0, 3.2, 3.1]], dims=("a", "seed"))
    >>> variance_shares(x).source.values.tolist()
    ['a', 'seed', 'seed:setups']
    """
    given = [str(dim) for dim in values.dims if dim != over] if axes is None else list(axes)
    dims = dimensions(values, [*given, *([over] if over in values.dims else [])])
    dims = [dim for dim in dims if dim != over]
    if not dims:
        raise InputError(f"`axes` must name an axis beside {over}, got none")
    check_options(estimand=(estimand, (RUN, MEAN)))
    design = design or Design.of(values, planned=planned)
    design.check_grid(dims)
    log = declared_attributes(values)[1] == GEOMETRIC_MEAN if log is None else log
    return _variance_shares(values, dims, over, design, log, estimand, order, confidence)


def _variance_shares(
    values: xr.DataArray, dims: Sequence[str], over: str, design: Design, log: bool, estimand: str, order: int,
    confidence: float,
) -> xr.Dataset:  # fmt: skip
    """`variance_shares` of the axes `dims`."""
    rest = [str(dim) for dim in values.dims if dim not in (*dims, over)]
    seeded = values if over in values.dims else values.expand_dims(over)
    numbers = seeded.transpose(*rest, *dims, over).values.astype(float)
    if log and (numbers <= 0.0).any():
        raise InputError(f"`{values.name}` must be positive to have logarithms. Use log=False.")
    numbers = logarithms(numbers) if log else numbers
    fresh = design.is_fresh(dims) if over in values.dims else False
    shape = numbers.shape[: len(rest)]
    found = [
        _shares_of_grid(numbers[place], dims, fresh, estimand == RUN, order, confidence) for place in np.ndindex(*shape)
    ]
    subsets = [each for size in range(1, len(dims) + 1) for each in combinations(range(len(dims)), size)]
    sources = list(dict.fromkeys(_source(dims, each, order) for each in subsets))
    if estimand == RUN and numbers.shape[-1] > 1:
        sources += ["run"] if fresh else ["seed", "seed:setups"]
    columns = {
        "share": ((SOURCE,), [[shares.get(name, UNKNOWN)[0] for name in sources] for shares, _, _ in found]),
        "share_ci": ((SOURCE, BOUND), [[shares.get(name, UNKNOWN)[1:] for name in sources] for shares, _, _ in found]),
        "component": ((SOURCE,), [[parts.get(name, UNKNOWN)[0] for name in sources] for _, parts, _ in found]),
        "total": ((AXIS,), [[totals[dim][0] for dim in dims] for _, _, totals in found]),
        "total_ci": ((AXIS, BOUND), [[totals[dim][1:] for dim in dims] for _, _, totals in found]),
    }
    data = {
        name: ((*rest, *own), (table := np.array(column, dtype=float)).reshape((*shape, *table.shape[1:])))
        for name, (own, column) in columns.items()
    }
    several = numbers.shape[-1] > 1
    more = [f"of log({values.name})" if log else "", "" if several else "one value for each setup, so no intervals"]
    counts = {"n_ok": int((design.ok & design.planned).sum()), "n_planned": int(design.planned.sum())}
    made = xr.Dataset({**data, **counts, NOTE: design.note(*more, streams=several)}, {
        SOURCE: sources, AXIS: dims, BOUND: ["lower", "upper"],
    })  # fmt: skip
    if not several:
        made = made.assign({name: np.nan * made[name] for name in ("share_ci", "total_ci")})
    kept = {name: coord for name, coord in kept_coordinates(values, [*dims, over]).items() if name not in made.coords}
    return made.assign_coords(kept).assign_attrs(of=str(values.name), estimand=estimand)


def _shares_of_grid(
    table: Array, dims: Sequence[str], fresh: bool, of_run: bool, order: int, confidence: float
) -> tuple[dict[str, Part], dict[str, Part], dict[str, Part]]:
    """Shares and components by source, and total shares by axis; unknown for values that do not vary."""
    if np.isinf(table).any() or not components.varies(table):
        return {}, {}, dict.fromkeys(dims, UNKNOWN)
    if np.isnan(table).all(axis=-1).any():
        raise InputError("`values` must have a value at each point of the grid. Select a full part with `sel`.")
    own, seeds = components.grid_components(table, fresh=fresh, confidence=confidence)
    seeds = seeds if of_run else {}
    parts: dict[str, list[Part]] = {}
    for subset, part in own.items():
        parts.setdefault(_source(dims, subset, order), []).append(part)
    named = {name: components.add(each) for name, each in parts.items()} | seeds
    shares = {
        name: components.divide(part, components.add(other for key, other in named.items() if key != name))
        for name, part in named.items()
    }
    totals = {
        dim: components.divide(
            components.add(part for subset, part in own.items() if j in subset),
            components.add([*(part for subset, part in own.items() if j not in subset), *seeds.values()]),
        )
        for j, dim in enumerate(dims)
    }
    return shares, named, totals


def _source(dims: Sequence[str], subset: Sequence[int], order: int) -> str:
    """Name of an effect: "a", "a:b", or "higher" for more axes than `order`."""
    return ":".join(sorted(dims[j] for j in subset)) if len(subset) <= order else "higher"
