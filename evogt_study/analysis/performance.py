"""Compute performance measures of estimators, shares of runs, and comparisons of methods over many problems."""

import ast
import operator
from collections.abc import Iterable
from contextlib import suppress
from functools import reduce
from typing import Any

import numpy as np
import scipy  # it imports scipy.stats at the first use
import xarray as xr

from evogt_study.analysis import statistics
from evogt_study.analysis.runs import SEED, Design, lay_out_units, mark_runs
from evogt_study.errors import InputError, ParameterError, name_error
from evogt_study.inference.intervals import compute_share_interval
from evogt_study.inference.kernels import Array, Bools, compute_normal_quantile, compute_student_quantile
from evogt_study.schema.variables import HIGHER, LOWER, read_direction

_MEASURES = {
    "bias": "mean of estimate - truth", "relative_bias": "bias over truth",
    "empirical_se": "standard deviation of the estimates", "mse": "mean squared error",
    "rmse": "root of the mean squared error", "model_se": "root of the mean squared standard error",
    "relative_error_se": "model_se over empirical_se, less 1",
    "coverage": "share of intervals that contain the truth", "power": "share of intervals without the null value",
    "bias_eliminated_coverage": "share of intervals that contain the mean estimate",
}  # fmt: skip


def performance(
    estimate: xr.DataArray, truth: xr.DataArray | float, over: str = "seed", *, se: xr.DataArray | None = None,
    lower: xr.DataArray | None = None, upper: xr.DataArray | None = None, null: xr.DataArray | float = 0.0,
    confidence: float = 0.95, planned: xr.DataArray | None = None,
) -> xr.Dataset:  # fmt: skip
    """Return performance measures of an estimator, with Monte Carlo standard errors.

    Parameters
    ----------
    estimate : DataArray
        Estimate of each run.
    truth : DataArray or float
        True value of the estimand.
    over : str, default "seed"
        Dimension of the repetitions.
    se : DataArray, optional
        Standard error that each run reports.
    lower, upper : DataArray, optional
        Ends of the interval that each run reports, by default estimate -+ z se.
    null : DataArray or float, default 0
        Value that an interval excludes if the estimate is significant (power).
    confidence : float, default 0.95
        Confidence of the default intervals, and of the intervals of shares.
    planned : DataArray, optional
        Run keys or booleans, as in `evs.summary`.

    Returns
    -------
    xarray.Dataset
        bias, relative_bias, empirical_se, mse and rmse over the other dimensions.  `se` adds model_se and
        relative_error_se.  Intervals add coverage, bias_eliminated_coverage and power, with ``_ci`` (Wilson).
        ``_mcse`` is the Monte Carlo standard error of each measure.  n_ok, n_planned and failed count the runs.

    Notes
    -----
    Formulas: Morris, White & Crowther, Stat. Med. 38 (2019), Table 6.  A run counts if it has a value of each
    given variable.  `failed` counts the failed runs, which no measure uses.

    Examples
    --------
    >>> estimate = xr.DataArray([1.0, 2.0, 3.0], dims="seed")
    >>> float(performance(estimate, 1.5).bias)
    0.5
    """
    (dim,) = statistics.check_dimensions(estimate, [over])
    statistics.check_confidence(confidence)
    columns = {f"{name}{end}" for name in _MEASURES for end in ("", "_mcse", "_ci")}
    columns |= {*statistics.UNIT_COUNTS, "failed", statistics.NOTE}
    statistics.check_dimension_names([each for each in estimate.dims if each != dim], columns)
    given = [each.notnull() for each in (estimate, se, lower, upper) if each is not None]
    ok = xr.concat(given, "part", coords="minimal", compat="override").all("part")
    once = mark_runs(estimate, [dim], planned)
    runs = xr.ones_like(ok) if once is None else once & xr.ones_like(ok)
    ok = ok & runs
    b, n = estimate.astype(float).where(ok), ok.sum(dim)
    spread, squares = b.std(dim, ddof=1), (b - truth) ** 2
    mse, mse_error = squares.mean(dim), squares.std(dim, ddof=1) / np.sqrt(n)
    with np.errstate(divide="ignore", invalid="ignore"):  # a truth of zero has no relative bias
        relative = (b - truth) / truth
        found: dict[str, tuple[Any, Any]] = {
            "bias": ((b - truth).mean(dim), spread / np.sqrt(n)),
            "relative_bias": (relative.mean(dim), relative.std(dim, ddof=1) / np.sqrt(n)),
            "empirical_se": (spread, spread / np.sqrt(2.0 * (n - 1))),
            "mse": (mse, mse_error),
            "rmse": (np.sqrt(mse), mse_error / (2.0 * np.sqrt(mse))),
        }
    if se is not None:
        variances = (se.astype(float) ** 2).where(ok)
        model, part = np.sqrt(variances.mean(dim)), variances.var(dim, ddof=1) / (4.0 * n)
        ratio = model / spread
        found["model_se"] = model, np.sqrt(part) / model
        found["relative_error_se"] = ratio - 1.0, ratio * np.sqrt(part / model**4 + 0.5 / (n - 1))
        half = compute_normal_quantile(confidence) * se
        lower, upper = estimate - half if lower is None else lower, estimate + half if upper is None else upper
    made = xr.Dataset()
    if lower is not None and upper is not None:
        hits = {
            "coverage": (lower <= truth) & (truth <= upper),
            "bias_eliminated_coverage": (lower <= b.mean(dim)) & (b.mean(dim) <= upper),
            "power": (lower > null) | (upper < null),
        }
        for name, hit in hits.items():
            hit_share = hit.where(ok).mean(dim)
            found[name] = hit_share, (hit_share * (1.0 - hit_share) / n) ** 0.5
            made[f"{name}_ci"] = _compute_share_ci(hit.where(ok), [dim], confidence)
    for name, (value, error) in found.items():
        made[name] = value.assign_attrs(long_name=_MEASURES[name])
        made[f"{name}_mcse"] = error.assign_attrs(long_name=f"Monte Carlo standard error of {name}")
    note = Design.of(estimate, planned=planned).note(streams=False)
    made = made.assign(n_ok=n, n_planned=runs.sum(dim), failed=runs.sum(dim) - n, note=note)
    return made.assign_attrs(of=str(estimate.name), over=dim)


def _compute_share_ci(hits: xr.DataArray, dims: list[str], confidence: float) -> xr.DataArray:
    """Return Wilson's interval of a share over `dims`.  The first dimension has the sampling units."""
    found: xr.DataArray = xr.apply_ufunc(
        lambda each: compute_share_interval(each.reshape(*each.shape[: 1 - len(dims) or None], -1), confidence),
        hits.astype(float), input_core_dims=[dims], output_core_dims=[[statistics.BOUND]],
    )  # fmt: skip
    return found.assign_coords(statistics.BOUNDS)


def share(
    data: xr.Dataset, condition: str, over: str | Iterable[str] = "seed", *, confidence: float = 0.95,
    planned: xr.DataArray | None = None,
) -> xr.Dataset:  # fmt: skip
    """Return the share of runs for which a condition holds, with Wilson's interval.

    Parameters
    ----------
    data : Dataset
        Result.
    condition : str
        Comparison of variables, coordinates and numbers, such as ``"lower <= truth <= upper"`` or
        ``"abs(error) < 0.1 and rank > 3"``.
    over : str or list of str, default "seed"
        Dimensions to pool.  If `over` contains the seed, the seed is the sampling unit.
    confidence : float, default 0.95
        Confidence of the intervals.
    planned : DataArray, optional
        Run keys or booleans, as in `evs.summary`.

    Returns
    -------
    xarray.Dataset
        share and share_ci of the runs that have all variables of the condition.  n_ok counts these runs, n_planned
        counts the planned runs, and failed is the difference.

    Raises
    ------
    InputError
        If the condition cannot be read or names an unknown variable.

    Examples
    --------
    >>> data = xr.Dataset({"x": ("seed", [1.0, 2.0, float("nan"), 4.0])})
    >>> found = share(data, "x < 3")
    >>> round(float(found["share"]), 3), int(found["failed"])
    (0.667, 1)
    """
    statistics.check_confidence(confidence)
    hit, names = None, list[str]()
    with suppress(SyntaxError, TypeError, NameError, NotImplementedError, RecursionError):
        nodes = [*ast.walk(ast.parse(condition, mode="eval"))]
        names = [node.id for node in nodes if isinstance(node, ast.Name) and node.id != "abs"]
        for name in names:
            if name not in data.variables:
                raise name_error("condition", name, map(str, data.variables))
        if not any(isinstance(node, (ast.Attribute, ast.Subscript, ast.Lambda)) for node in nodes):
            hit = data.eval(condition)
    if not isinstance(hit, xr.DataArray) or hit.dtype.kind != "b":
        message = "`condition` must compare variables, such as 'lower <= truth <= upper'"
        raise InputError(f"{message}, got {condition!r}")
    laid_out = lay_out_units(hit, statistics.check_dimensions(hit.astype(float).rename(condition), over), None, planned)
    dims, runs = laid_out.dims, laid_out.runs
    wanted = xr.ones_like(hit) if runs is None else xr.ones_like(hit) & runs
    ok = reduce(operator.and_, (data[name].notnull() for name in names), wanted)
    hits, n_ok, count = hit.where(ok), ok.sum(dims), wanted.sum(dims)
    found = {"share": hits.mean(dims), "share_ci": _compute_share_ci(hits, list(dims), confidence)}
    found |= {"n_ok": n_ok, "n_planned": count, "failed": count - n_ok}
    return xr.Dataset(found, attrs={"condition": condition, "over": " ".join(dims)})


def over_problems(
    values: xr.DataArray, dim: str, problem: str = "problem", over: str = "seed", *, better: str = "",
    units: str = "seed", factors: Iterable[float] = (1.0, 2.0, 5.0, 10.0), confidence: float = 0.95,
) -> xr.Dataset:  # fmt: skip
    """Compare methods over many problems by ranks and performance profiles.

    Parameters
    ----------
    values : DataArray
        Positive values of each method, problem and seed.
    dim, problem, over : str
        Dimensions of the methods, the problems and the seeds.
    better : {"lower", "higher"}, optional
        Direction of better values, by default the declaration of the variable, else "lower".
    units : {"seed", "problem", "stratified"}, default "seed"
        Independent observations: seeds common to all problems, problems, or the seeds of each problem.
    factors : iterable of float
        Factors of the performance profile (Dolan & More 2002).
    confidence : float, default 0.95
        Confidence of the jackknife intervals.

    Returns
    -------
    xarray.Dataset
        problems_led, mean_rank(_ci) and iqm(_ci) along `dim`, and profile(_ci) along `dim` and `factor`.  iqm is
        exp of the interquartile mean of log(value / median of the problem).  A failed run has the last rank and is
        within no factor.

    Raises
    ------
    InputError, ParameterError
        If a dimension or an option is unknown, or a value is not positive.

    Examples
    --------
    >>> x = xr.DataArray([[[1.0, 2.0], [1.0, 1.0]], [[2.0, 4.0], [3.0, 2.0]]], dims=("method", "problem", "seed"))
    >>> over_problems(x, "method").problems_led.values
    array([2, 0])
    """
    for name in (dim, problem, over):
        if name not in values.dims:
            raise InputError(f"`values` must have the dimension {name}, got {', '.join(map(str, values.dims))}")
    if values.ndim > 3:
        raise InputError(f"`values` must have three dimensions, got {', '.join(map(str, values.dims))}. Use `sel`")
    statistics.check_options(units=(units, ("seed", "problem", "stratified")))
    direction = better or read_direction(values)[0] or LOWER
    statistics.check_options(better=(direction, (LOWER, HIGHER)))
    statistics.check_confidence(confidence)
    v, factor = values.transpose(dim, problem, over).values.astype(float), np.array([*factors], float)
    if (v <= 0.0).any():
        raise ParameterError("values", "positive", float(np.nanmin(v)))
    v, lost = 1.0 / v if direction == HIGHER else v, int(np.isnan(v).sum())
    losses = np.where(np.isnan(v), np.inf, v)
    middle = np.nanmedian(np.where(np.isfinite(v), v, np.nan), axis=(0, 2), keepdims=True)
    ranks, logs = scipy.stats.rankdata(losses, axis=0), np.log(losses / middle)
    within = (losses[..., None] <= losses.min(axis=0)[..., None] * factor) & np.isfinite(losses)[..., None]

    def numbers(kept: Bools) -> Array:
        means = scipy.stats.trim_mean(logs[:, kept], 0.25, axis=1)
        return np.array([ranks[:, kept].mean(axis=1), means, *np.moveaxis(within[:, kept].mean(axis=1), -1, 0)])

    at = np.indices(v.shape[1:])
    by_problem, by_seed = ([where != each for each in range(n)] for where, n in zip(at, v.shape[1:], strict=True))
    strata = {SEED: [by_seed], "problem": [by_problem]}.get(units, [[a | b for b in by_seed] for a in by_problem])
    freedom = sum(len(each) - 1 for each in strata)
    with np.errstate(invalid="ignore"):
        whole = numbers(np.ones(v.shape[1:], dtype=bool))
        variance = sum((len(each) - 1) * np.array([numbers(kept) for kept in each]).var(axis=0) for each in strata)
        half = (compute_student_quantile(freedom + 1, confidence) if freedom else np.nan) * np.sqrt(variance)
        ends = np.stack([whole - half, whole + half], axis=-1)
    medians = np.median(losses, axis=-1)
    made = xr.Dataset({
        "problems_led": (dim, ((medians == medians.min(axis=0)) & np.isfinite(medians)).sum(axis=-1)),
        "mean_rank": (dim, whole[0]), "mean_rank_ci": ((dim, statistics.BOUND), ends[0].clip(1.0, len(v))),
        "iqm": (dim, np.exp(whole[1])), "iqm_ci": ((dim, statistics.BOUND), np.exp(ends[1])),
        "profile": (("factor", dim), whole[2:]),
        "profile_ci": (("factor", dim, statistics.BOUND), ends[2:].clip(0.0, 1.0)),
        "note": f"{lost} of {v.size} runs have no value and have the last rank" if lost else "",
    }, {"factor": factor, **statistics.BOUNDS})  # fmt: skip
    made = made.assign_coords(statistics.keep_coordinates(values, [problem, over]))
    return made.assign_attrs(better=direction, units=units)
