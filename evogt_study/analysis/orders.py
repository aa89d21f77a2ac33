"""Compute observed orders of convergence along a numeric axis or a dependent parameter, and their table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product

import numpy as np
import xarray as xr

from evogt_study.analysis import statistics
from evogt_study.analysis.runs import each_once, labels_as_typed, lay_out_units, list_headings, mark_runs
from evogt_study.analysis.tables import FORMATS, NumberFormat, TableRequest, find_variables, render_table
from evogt_study.errors import InputError, suggest
from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array, Bools, Counts, kernel_of
from evogt_study.inference.means import resample_statistic, student_quantile

EOC = "EOC"  # heading of an order: experimental order of convergence


def observed_orders(
    values: xr.DataArray, along: str, over: str | Iterable[str] = (), *, of: str = "mean",
    interval: Interval = Interval(), units: str | Iterable[str] | None = None, missing: str = "warn",
    planned: xr.DataArray | None = None,
) -> xr.Dataset:  # fmt: skip
    """Return the exponents p of values ~ h^p along an axis or a dependent parameter.

    Parameters
    ----------
    values : DataArray
        Values of one variable, such as ``ds.error``.
    along : str
        Axis, or parameter that depends on one axis, with different positive numbers h_i.
    over : str or list of str, optional
        Dimensions to pool.  Default: none.
    of : str, default "mean"
        Statistic e_i over `over`, or the value itself if `over` is empty.  A value that is zero, negative, infinite or
        missing has no order (NaN).
    interval : Interval
        Confidence, resamples, seed and smallest number of units of the intervals.
    units, missing, planned
        As in `evs.summary`.

    Returns
    -------
    xarray.Dataset
        The statistic, order, n_ok and n_planned along `along`, and slope and n_points.  If `over` is not empty, also
        order_se, slope_se, order_ci and slope_ci.

    Raises
    ------
    InputError
        If `along` does not have different positive numbers.

    Notes
    -----
    order = log(e_i / e_{i-1}) / log(h_i / h_{i-1}) at h_i, and slope is the least-squares slope of log e against log h
    over n_points values.  An error of second order in dt has order 2, and an error that falls like N^-2 has order -2.
    Bootstrap resamples, which draw a unit at all axis values together, give the standard error s.  The interval is p -+
    t s with Student's quantile t.

    Examples
    --------
    >>> observed_orders(xr.DataArray([4.0, 1.0], {"dt": [0.2, 0.1]}, ["dt"]), "dt")["order"].values
    array([nan,  2.])
    """
    statistics.check_array(values)
    values = _along_parameter(values, along)
    planned = planned if planned is None else _along_parameter(planned, along)
    numeric = [str(name) for name, coord in values.coords.items() if coord.ndim == 1 and coord.dtype.kind in "iuf"]
    if along not in numeric or along not in values.dims:
        raise InputError(f"`along` must be a numeric axis, got {along!r}. {suggest(along, numeric)}")
    steps, dims, kernel = values[along].values.astype(float), each_once(over), kernel_of(of)[0]
    if not (steps > 0.0).all() or len(np.unique(steps)) < len(steps):
        raise InputError(f"`along` must be an axis of different positive numbers, got {along} = {steps.tolist()}")
    if dims:
        data = statistics.summary(values, dims, statistics=(of,), units=units, missing=missing, planned=planned)
    else:
        alone = values.expand_dims("none")
        data = statistics.summary(alone, "none", statistics="mean", missing="drop", planned=planned).rename(mean=of)
        data[of].attrs = values.attrs
    errors = data[of].transpose(..., along)
    names = {
        "order": f"observed order in {along}, positive if values fall with it",
        "slope": f"least-squares slope of log {of} against log {along}",
        "n_points": "number of values in the fit of the slope",
    }
    for name, found in zip(names, compute_orders(errors.values, steps), strict=True):
        data[name] = (errors.dims[: found.ndim], found, {"long_name": names[name]})
    if not dims:
        return data
    laid_out = lay_out_units(values, statistics.check_dimensions(values, dims), units, planned)
    runs = mark_runs(values, laid_out.dims, planned)

    def on_points(samples: Array, once: Bools) -> list[Array]:
        pooled = laid_out.units(samples, once)
        shape = pooled.shape[:-3]
        of_order, of_slope, counts = np.full((*shape, len(steps)), np.nan), np.full(shape, np.nan), np.zeros(shape)
        for place in np.ndindex(*shape):
            there = (~np.isnan(pooled[place])).any(axis=(0, 2))
            counts[place] = there.sum()
            if counts[place] < interval.min_units or np.isinf(pooled[place]).any():
                continue
            resampled = resample_statistic(pooled[place][:, there], kernel, interval.resamples, interval.seed)
            order, slope, _ = compute_orders(resampled.T, steps)
            known = np.isfinite(order).any(axis=0)
            of_order[(*place, known)] = np.nanstd(order[:, known], axis=0)
            of_slope[place] = np.nanstd(slope) if np.isfinite(slope).any() else np.nan
        return [of_order, of_slope, counts]

    outputs = {"order_se": (along,), "slope_se": (), "units": ()}
    errors_of = statistics.reduce_blocks(values, laid_out.dims, on_points, outputs, along=[along], runs=runs)
    # for n - 1 = 0 there is no quantile, and the standard error is NaN
    t = student_quantile(np.maximum(errors_of["units"], 2.0), interval.confidence)
    for name in ("order", "slope"):
        error = errors_of[f"{name}_se"].transpose(*data[name].dims)
        data[f"{name}_se"] = error.assign_attrs(long_name=f"standard error of the {names[name]}")
        half = error * xr.DataArray(t, dims=errors_of["units"].dims)
        ends = xr.concat([data[name] - half, data[name] + half], dim=statistics.BOUND).transpose(..., statistics.BOUND)
        text = f"{100.0 * interval.confidence:g}% confidence interval of the {names[name]}"
        data[f"{name}_ci"] = ends.drop_attrs(deep=False).assign_attrs(long_name=text)
    return data.assign_coords(statistics.BOUNDS)


def _along_parameter(values: xr.DataArray, along: str) -> xr.DataArray:
    """Return the values with the dependent parameter `along` as a dimension in place of its axis."""
    if along in values.dims or along not in values.coords or values.coords[along].ndim != 1:
        return values
    return values.swap_dims({next(iter(values.coords[along].dims)): along})


def compute_orders(errors: Array, steps: Array) -> tuple[Array, Array, Counts]:
    """Return the order (..., n), slope (...) and the number of points (...) of errors (..., n) at steps (n,)."""
    ok = np.isfinite(errors) & (errors > 0.0)
    logs, log_steps = np.log(np.where(ok, errors, 1.0)), np.log(steps)  # 1 has a logarithm, and is masked below
    order = np.full(errors.shape, np.nan)
    np.divide(np.diff(logs), np.diff(log_steps), out=order[..., 1:], where=ok[..., 1:] & ok[..., :-1])
    n = ok.sum(axis=-1, dtype=np.int64)
    apart, aside = (
        np.where(ok, each - (np.where(ok, each, 0.0).sum(axis=-1) / np.maximum(n, 1))[..., None], 0.0)
        for each in (np.broadcast_to(log_steps, ok.shape), logs)
    )
    slope = np.divide((apart * aside).sum(axis=-1), (apart**2).sum(axis=-1), out=np.full(n.shape, np.nan), where=n > 1)
    return order, slope, n


def eoc_table(data: xr.Dataset, request: TableRequest, along: str = "") -> str:
    """Return the table of observed orders of the first variable, by default along the only numeric axis."""
    values = data[find_variables(data, *request.variables)[0]]
    over = [dim for dim in request.over if dim in values.dims]
    numeric = [str(dim) for dim in values.dims if dim not in over and values[dim].dtype.kind in "iuf"]
    if not along and len(numeric) != 1:
        raise InputError(f"`--orders` must name one of the numeric axes ({', '.join(numeric) or 'there is none'})")
    if along in over:
        raise InputError(f"`--orders` must name another axis than `--over`, got {along} for both")
    of = request.statistics[0] if request.statistics else "mean"
    found = observed_orders(
        values, along or numeric[0], over, of=of, interval=request.interval, units=request.units,
        missing=request.missing, planned=data["run_key"],
    )  # fmt: skip
    return format_orders(found, along or numeric[0], of, request.form, request.numbers)


def format_orders(
    found: xr.Dataset, along: str, of: str, form: str = "text", numbers: NumberFormat = NumberFormat(3)
) -> str:
    """Return the table of `observed_orders`, with the least-squares slopes in the last row."""
    statistics.check_options(format=(form, FORMATS))
    rest, none = [str(dim) for dim in found["slope"].dims], {"latex": "--", "csv": ""}.get(form, "-")

    def show(value: float, text: str) -> str:
        return none if not math.isfinite(value) else f"${text}$" if form == "latex" else text

    labels = [" ".join(each) for each in product(*(list_headings(found, dim) for dim in rest))]
    header, body = [along], [[label] for label in [*labels_as_typed(found, along), "slope"]]
    for place, label in zip(np.ndindex(*found["slope"].shape), labels, strict=True):
        one = found.isel(dict(zip(rest, place, strict=True)))
        if not (one["n_planned"] > 0).any():
            continue
        header += [f"{label} {name}".strip() for name in (of, EOC)]
        columns = (one[name].transpose(along).values.tolist() for name in (of, "order", "n_ok", "n_planned"))
        for row, value, order, n_ok, n_planned in zip(body[:-1], *columns, strict=True):
            number = show(value, numbers.latex(value) if form == "latex" else numbers.text(value))
            row += [number + (f" {n_ok}/{n_planned}" if n_ok < n_planned else ""), show(order, f"{order:.2f}")]
        slope = show(float(one["slope"]), f"{float(one['slope']):.2f}")
        if "slope_ci" in one and bool(np.isfinite(one["slope_ci"]).all()) and form != "csv":
            slope += " [{:.2f}, {:.2f}]".format(*one["slope_ci"].values.tolist())
        body[-1] += ["", slope]
    return render_table(header, body, form, 1)
