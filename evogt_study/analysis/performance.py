"""Performance of estimators in simulation studies, shares of runs with a property, and methods over many problems."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import scipy  # it imports scipy.special and scipy.stats at the first use
import xarray as xr

from evogt_study.analysis.design import Design
from evogt_study.analysis.reduce import BOUND, check_options, dimensions
from evogt_study.analysis.runs import DRAWN, layout, planned_runs
from evogt_study.analysis.statistics import kept_coordinates
from evogt_study.errors import InputError, ParameterError
from evogt_study.inference.intervals import share_interval
from evogt_study.inference.kernels import Array
from evogt_study.inference.means import student_quantile
from evogt_study.schema.variables import HIGHER, LOWER, declared_attributes

_MEASURES = {
    "bias": "mean of estimate - truth", "relative_bias": "bias over truth",
    "empirical_se": "standard deviation of the estimates", "mse": "mean squared error",
    "rmse": "root of the mean squared error", "model_se": "root of the mean squared standard error",
    "relative_error_se": "model_se over empirical_se, less 1",
    "coverage": "share of intervals that hold the truth", "power": "share of intervals without the null value",
    "bias_eliminated_coverage": "share of intervals that hold the mean estimate",
}  # fmt: skip


def performance(
    estimate: xr.DataArray,
    truth: xr.DataArray | float,
    over: str = "seed",
    *,
    se: xr.DataArray | None = None,
    lower: xr.DataArray | None = None,
    upper: xr.DataArray | None = None,
    null: xr.DataArray | float = 0.0,
    confidence: float = 0.95,
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """Return the performance measures of an estimator, each with its Monte Carlo standard error.

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
        Interval that each run reports.  Default: estimate -+ z se.
    null : DataArray or float, default 0
        Value that an interval excludes if the estimate is significant (power).
    confidence : float, default 0.95
        Confidence of the default intervals, and of the intervals of shares.
    planned : DataArray, optional
        Run keys or booleans, as in `evs.summary`.

    Returns
    -------
    xarray.Dataset
        Over the other dimensions: bias, relative_bias, empirical_se, mse and rmse; with `se` model_se and
        relative_error_se; with intervals coverage, bias_eliminated_coverage and power, also with ``_ci`` (Wilson).
        ``_mcse`` is the Monte Carlo standard error of each measure.  n_ok, n_planned and failed count the runs.

    Notes
    -----
    Formulas: Morris, White & Crowther, Stat. Med. 38 (2019), Table 6.  A run counts if it has all numbers that are
    given.  A failed run is not "not covered": it is counted in `failed` and leaves every measure.

    Examples
    --------
    >>> estimate = xr.DataArray([1.0, 2.0, 3.0], dims="seed")
    >>> float(performance(estimate, 1.5).bias)
    0.5
    """
    (dim,) = dimensions(estimate, [over])
    design = Design.of(estimate, planned=planned)
    given = [each for each in (estimate, se, lower, upper) if each is not None]
    ok = xr.concat([each.notnull() for each in given], "part", coords="minimal", compat="override").all("part")
    runs = (design.planned & xr.ones_like(ok)) if dim in design.planned.dims else xr.ones_like(ok)
    ok = ok & runs
    limits = (lower, upper) if lower is not None and upper is not None else None
    if limits is None and se is not None:
        z = float(scipy.special.ndtri(0.5 + confidence / 2.0))
        limits = (estimate - z * se if lower is None else lower, estimate + z * se if upper is None else upper)
    found = _errors(estimate.astype(float).where(ok), truth, dim, se)
    if limits is not None:
        found |= _coverages(estimate.astype(float).where(ok), truth, dim, limits, null, confidence)
    return _labelled(found, ok.sum(dim), runs.sum(dim), estimate, over).assign(note=design.note(streams=False))


def _labelled(
    found: dict[str, xr.DataArray], n: xr.DataArray, planned: xr.DataArray, estimate: xr.DataArray, over: str
) -> xr.Dataset:
    """The measures with their long names, and the counts of runs."""
    made = xr.Dataset({**found, "n_ok": n, "n_planned": planned, "failed": planned - n})
    for name, long_name in _MEASURES.items():
        if name in made:
            made[name].attrs["long_name"] = long_name
            made[f"{name}_mcse"].attrs["long_name"] = f"Monte Carlo standard error of {name}"
    return made.assign_attrs(of=str(estimate.name), over=over)


def _errors(b: xr.DataArray, truth: xr.DataArray | float, dim: str, se: xr.DataArray | None) -> dict[str, xr.DataArray]:
    """Measures of the estimates `b`, and of their standard errors, with Monte Carlo standard errors."""
    n = b.notnull().sum(dim)
    found: dict[str, xr.DataArray] = {}

    def measure(name: str, value: Any, error: Any) -> None:
        found[name], found[f"{name}_mcse"] = value, error

    spread, squares = b.std(dim, ddof=1), (b - truth) ** 2
    measure("bias", (b - truth).mean(dim), spread / np.sqrt(n))
    with np.errstate(divide="ignore", invalid="ignore"):  # of a truth of zero
        relative = (b - truth) / truth
        measure("relative_bias", relative.mean(dim), relative.std(dim, ddof=1) / np.sqrt(n))
    measure("empirical_se", spread, spread / np.sqrt(2.0 * (n - 1)))
    measure("mse", squares.mean(dim), squares.std(dim, ddof=1) / np.sqrt(n))
    root = np.sqrt(found["mse"])
    measure("rmse", root, found["mse_mcse"] / (2.0 * root))
    if se is not None:
        variances = (se.astype(float) ** 2).where(b.notnull())
        model, part = np.sqrt(variances.mean(dim)), variances.var(dim, ddof=1) / (4.0 * n)
        measure("model_se", model, np.sqrt(part) / model)
        ratio = model / spread
        measure("relative_error_se", ratio - 1.0, ratio * np.sqrt(part / model**4 + 0.5 / (n - 1)))
    return found


def _coverages(
    b: xr.DataArray, truth: xr.DataArray | float, dim: str, limits: tuple[xr.DataArray, xr.DataArray],
    null: xr.DataArray | float, confidence: float,
) -> dict[str, xr.DataArray]:  # fmt: skip
    """Shares of intervals with the truth, with the mean estimate and without the null value, with their errors."""
    (lower, upper), n, found = limits, b.notnull().sum(dim), dict[str, xr.DataArray]()
    hits = {
        "coverage": (lower <= truth) & (truth <= upper),
        "bias_eliminated_coverage": (lower <= b.mean(dim)) & (b.mean(dim) <= upper),
        "power": (lower > null) | (upper < null),
    }
    for name, hit in hits.items():
        share = hit.where(b.notnull()).mean(dim)
        found[name], found[f"{name}_mcse"] = share, (share * (1.0 - share) / n) ** 0.5
        found[f"{name}_ci"] = _share_ci(hit.where(b.notnull()), [dim], confidence)
    return found


def _share_ci(hits: xr.DataArray, dims: list[str], confidence: float) -> xr.DataArray:
    """Wilson's interval of a share over `dims` (the first has the units); NaN for a run that does not count."""

    def ends(values: Array) -> Array:
        units = values.reshape(values.shape[0], -1)
        known = not np.isnan(units).all()
        return np.array(share_interval(units, confidence) if known else (np.nan, np.nan))

    found: xr.DataArray = xr.apply_ufunc(
        ends, hits.astype(float), input_core_dims=[dims], output_core_dims=[[BOUND]], vectorize=True
    )
    return found.assign_coords({BOUND: ["lower", "upper"]})


_OPERATIONS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: operator.pow, ast.And: operator.and_, ast.Or: operator.or_,
    ast.USub: operator.neg, ast.Not: operator.invert,
}  # fmt: skip


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
        Dimensions that are pooled.  The seed, if it is one of them, is the sampling unit.
    confidence : float, default 0.95
        Confidence of the intervals.
    planned : DataArray, optional
        Run keys or booleans, as in `evs.summary`.

    Returns
    -------
    xarray.Dataset
        share and share_ci of the runs that have all variables of the condition; n_ok and n_planned count these runs and
        the planned runs, and failed is their difference.

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
    used: list[xr.DataArray] = []
    try:
        tree = ast.parse(condition, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise InputError(
            f"`condition` must be a comparison such as 'lower <= truth <= upper', got {condition!r}"
        ) from None
    hit = _evaluated(tree, data, used, condition)
    if not isinstance(hit, xr.DataArray) or hit.dtype.kind != "b":
        raise InputError(f"`condition` must compare variables, got {condition!r}")
    dims = dimensions(hit.astype(float).rename(condition), over)
    ok = xr.ones_like(hit)
    for each in used:
        ok = ok & each.notnull()
    runs = planned_runs(hit, planned)
    ok = ok if runs is None else ok & (runs >= 0)
    laid_out = layout(hit, dims, None, None)
    hits = hit.where(ok)
    count = xr.ones_like(hit).sum(dims) if runs is None else ((runs >= 0) & xr.ones_like(hit)).sum(dims)
    data = xr.Dataset({
        "share": hits.mean(dims), "share_ci": _share_ci(hits, list(laid_out.dims), confidence), "n_ok": ok.sum(dims),
        "n_planned": count, "failed": count - ok.sum(dims),
    })  # fmt: skip
    return data.assign_attrs(condition=condition, over=" ".join(dims))


def _evaluated(node: ast.AST, data: xr.Dataset, used: list[xr.DataArray], condition: str) -> Any:
    """The value of a part of a condition; variables are added to `used`.  Raises InputError for anything else."""

    def value(inner: ast.AST) -> Any:
        return _evaluated(inner, data, used, condition)

    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str)):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in data.variables:
            known = ", ".join(map(str, [*data.data_vars, *data.coords]))
            raise InputError(f"`condition` must name variables ({known}), got {node.id!r}")
        used.append(data[node.id])
        return data[node.id]
    if isinstance(node, ast.Compare):
        terms = [node.left, *node.comparators]
        values = [value(each) for each in terms]
        found = [_OPERATIONS[type(op)](a, b) for op, a, b in zip(node.ops, values, values[1:], strict=False)
                 if type(op) in _OPERATIONS]  # fmt: skip
        if len(found) == len(node.ops):
            return _joined(operator.and_, found)
    if isinstance(node, ast.BoolOp):
        return _joined(_OPERATIONS[type(node.op)], [value(each) for each in node.values])
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](value(node.left), value(node.right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](value(node.operand))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "abs" and len(node.args) == 1:
        return abs(value(node.args[0]))
    raise InputError(f"`condition` must be made of names, numbers, comparisons, and, or, not, abs, got {condition!r}")


def _joined(operation: Callable[[Any, Any], Any], values: list[Any]) -> Any:
    found = values[0]
    for each in values[1:]:
        found = operation(found, each)
    return found


def over_problems(
    values: xr.DataArray,
    dim: str,
    problem: str = "problem",
    over: str = "seed",
    *,
    better: str = "",
    units: str = "seed",
    factors: Iterable[float] = (1.0, 2.0, 5.0, 10.0),
    confidence: float = 0.95,
) -> xr.Dataset:
    """Compare methods over many problems: problems led, mean rank, interquartile mean, performance profile.

    Parameters
    ----------
    values : DataArray
        Positive values of each method, problem and seed.
    dim, problem, over : str
        Dimensions of the methods, the problems and the seeds.
    better : {"lower", "higher"}, optional
        Default: the attribute of the variable, else the lowest value leads.
    units : {"seed", "problem", "stratified"}, default "seed"
        Independent observations: seeds common to all problems, problems, or the seeds of each problem.
    factors : iterable of float
        Factors of the performance profile (Dolan & More 2002).
    confidence : float, default 0.95
        Confidence of the jackknife intervals.

    Returns
    -------
    xarray.Dataset
        Along `dim`: problems_led, mean_rank(_ci), iqm(_ci), and profile(_ci) along `factor`.  iqm is the interquartile
        mean of the logarithm of value / median of the problem, as a factor.  A failed run has the last rank and is
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
        raise InputError(f"`values` must have three dimensions, got {', '.join(map(str, values.dims))}; use sel")
    check_options(units=(units, ("seed", "problem", "stratified")))
    direction = better or declared_attributes(values)[0] or LOWER
    check_options(better=(direction, (LOWER, HIGHER)))
    v = values.transpose(dim, problem, over).values.astype(float)
    if (v <= 0.0).any():
        raise ParameterError("values", "positive", float(np.nanmin(v)))
    data, each = _over_problems(1.0 / v if direction == HIGHER else v, np.array([*factors], float), units, confidence)
    lost = int(np.isnan(v).sum())
    note = f"{lost} of {v.size} runs have no value; they have the last rank" if lost else ""
    made = xr.Dataset(
        {name: (tuple({"dim": dim}.get(d, d) for d in dims), column) for name, (dims, column) in data.items()}
    )
    kept = kept_coordinates(values, [problem, over])
    made = made.assign(note=note).assign_coords({"factor": each, BOUND: ["lower", "upper"]}).assign_coords(kept)
    return made.assign_attrs(better=direction, units=units)


def _over_problems(
    v: Array, each_factor: Array, units: str, confidence: float
) -> tuple[dict[str, tuple[tuple[str, ...], Array]], Array]:
    """Numbers of values (methods, problems, seeds), the lower ones ahead, by name with their dimensions."""
    losses = np.where(np.isnan(v), np.inf, v)
    middle = np.nanmedian(np.where(np.isfinite(v), v, np.nan), axis=(0, 2), keepdims=True)
    ranks, logs = scipy.stats.rankdata(losses, axis=0), np.log(losses / middle)
    least = losses.min(axis=0)[..., None]
    within = (losses[..., None] <= least * each_factor) & np.isfinite(losses)[..., None]

    def numbers(kept: Array) -> Array:
        means = scipy.stats.trim_mean(logs[:, kept], 0.25, axis=1)
        return np.array([ranks[:, kept].mean(axis=1), means, *np.moveaxis(within[:, kept].mean(axis=1), -1, 0)])

    with np.errstate(invalid="ignore"):
        whole, half = _jackknifed(numbers, v.shape[1:], units, confidence)
    ends = np.stack([whole - half, whole + half], axis=-1)
    medians = np.median(losses, axis=-1)
    led = ((medians == medians.min(axis=0)) & np.isfinite(medians)).sum(axis=-1)
    data: dict[str, tuple[tuple[str, ...], Array]] = {
        "problems_led": (("dim",), led), "mean_rank": (("dim",), whole[0]),
        "mean_rank_ci": (("dim", BOUND), ends[0].clip(1.0, len(v))), "iqm": (("dim",), np.exp(whole[1])),
        "iqm_ci": (("dim", BOUND), np.exp(ends[1])), "profile": (("factor", "dim"), whole[2:]),
        "profile_ci": (("factor", "dim", BOUND), ends[2:].clip(0.0, 1.0)),
    }  # fmt: skip
    return data, each_factor


def _jackknifed(
    numbers: Callable[[Array], Array], shape: tuple[int, ...], units: str, confidence: float
) -> tuple[Array, Array]:
    """Numbers of all runs (problems, seeds), and half widths of their intervals by the jackknife over the units."""
    at = np.indices(shape)
    by_seed = [at[1] != seed for seed in range(shape[1])]
    by_problem = [at[0] != each for each in range(shape[0])]
    strata = {
        DRAWN: [by_seed], "problem": [by_problem],
        "stratified": [[other | seed for seed in by_seed] for other in by_problem],
    }[units]  # fmt: skip
    variance = sum((len(each) - 1) * np.array([numbers(kept) for kept in each]).var(axis=0) for each in strata)
    freedom = sum(len(each) - 1 for each in strata)
    if freedom < 1:
        return numbers(np.ones(shape, dtype=bool)), np.full_like(variance, np.nan)
    return numbers(np.ones(shape, dtype=bool)), student_quantile(freedom + 1, confidence) * np.sqrt(variance)
