"""Observed orders of convergence along a numeric axis or a parameter that follows one, and their table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy.special import stdtrit

from evogt_study.analysis.reduce import BOUND, check_array, dimensions, reduced
from evogt_study.analysis.runs import Layout, Numbers, across, each_once, layout, planned_runs, shown
from evogt_study.analysis.statistics import kept_coordinates, summary
from evogt_study.analysis.summary_table import Question, asked_variables, select_runs
from evogt_study.analysis.tables import FORMATS, NumberFormat, escaped, rendered
from evogt_study.errors import InputError, ParameterError
from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array, Kernel, kernel_of
from evogt_study.inference.means import resampled_statistic

EOC = "EOC"
"""Heading of an order: experimental order of convergence."""


def observed_orders(
    values: xr.DataArray,
    along: str,
    over: str | Iterable[str] = (),
    *,
    of: str = "mean",
    interval: Interval = Interval(),
    units: str | Iterable[str] | None = None,
    missing: str = "warn",
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """Exponents p of values ~ h^p along an axis, or a parameter that follows it, from neighbours and by least squares.

    With e_i the statistic `of` over the dimensions `over` (the value itself if none) at the axis value h_i:

    order = log(e_i / e_{i-1}) / log(h_i / h_{i-1}), at h_i, NaN at the first; slope, the least-squares slope of log e
    against log h over the n_points values of i with e_i > 0, and NaN if there are fewer than two.

    Sign: positive where e falls as h falls.  An error of second order in dt has order 2; one that falls like N^-2 has
    order -2.  A value that is zero, negative, infinite or missing has no order, and NaN.

    Over seeds both have a standard error, order_se and slope_se, and an interval, order_ci and slope_ci (bound): the
    standard deviation s over bootstrap resamples of the units, each drawn at all axis values together, and p -+ t s
    with Student's quantile t for n - 1 degrees; NaN below `interval.min_units` units and for infinite values.

    Returns a Dataset over the other dimensions: the statistic, order, n_ok and n_planned with `along`, slope and
    n_points without.  Raises InputError where `along` is no dimension of different positive numbers.
    """
    check_array(values)
    values = _along_parameter(values, along)
    planned = planned if planned is None else _along_parameter(planned, along)
    steps = _steps(values, along)
    kernel_of(of)
    over = each_once(over)
    if over:
        data = summary(values, over, statistics=(of,), units=units, missing=missing, planned=planned)
    else:
        data = _unreduced(values, of, planned)
    errors = data[of].transpose(..., along)
    order, slope, points = orders(errors.values, steps)
    data["order"] = (
        errors.dims,
        order,
        {"long_name": f"observed order in {along}, positive where values fall with it"},
    )
    kept = errors.dims[:-1]
    data["slope"] = (kept, slope, {"long_name": f"least-squares slope of log {of} against log {along}"})
    data["n_points"] = (kept, points, {"long_name": "number of values that the slope rests on"})
    if not over:
        return data
    laid_out = layout(values, dimensions(values, over), units, planned_runs(values, planned), along=[along])
    return _with_intervals(data, values, along, laid_out, of, interval, planned_runs(values, planned))


def _along_parameter(values: xr.DataArray, along: str) -> xr.DataArray:
    """The values with `along` as dimension in the place of the axis that it follows, where it follows one."""
    if along in values.dims or along not in values.coords or values.coords[along].ndim != 1:
        return values
    return values.swap_dims({next(iter(values.coords[along].dims)): along})


def _steps(values: xr.DataArray, along: str) -> Array:
    numeric = [str(name) for name, coord in values.coords.items() if coord.ndim == 1 and coord.dtype.kind in "iuf"]
    if along not in numeric or along not in values.dims:
        raise InputError(f"`along` must be a numeric axis ({', '.join(numeric) or 'there is none'}), got {along!r}")
    steps = values[along].values.astype(float)
    if not (steps > 0.0).all() or len(np.unique(steps)) < len(steps):
        raise InputError(f"`along` must be an axis of different positive numbers, got {along} = {steps.tolist()}")
    return steps


def _unreduced(values: xr.DataArray, name: str, planned: xr.DataArray | None) -> xr.Dataset:
    numbers = values.astype(float).load()
    there, runs = numbers.notnull(), planned_runs(values, planned)
    wanted = xr.ones_like(there) if runs is None else xr.DataArray(runs >= 0).broadcast_like(there)
    counts = {"n_ok": there.astype(np.int64), "n_planned": wanted.transpose(*there.dims).astype(np.int64)}
    return xr.Dataset({name: numbers.where(there), **counts}).assign_coords(kept_coordinates(values, ()))


def orders(errors: Array, steps: Array) -> tuple[Array, Array, npt.NDArray[np.int64]]:
    """Order (..., n), slope (...) and the number of points (...) of errors (..., n) at steps (n,); see above."""
    ok = np.isfinite(errors) & (errors > 0.0)
    logs, log_steps = np.log(np.where(ok, errors, 1.0)), np.log(steps)  # 1 has a logarithm, and is masked below
    order = np.full(errors.shape, np.nan)
    np.divide(np.diff(logs), np.diff(log_steps), out=order[..., 1:], where=ok[..., 1:] & ok[..., :-1])
    n = ok.sum(axis=-1, dtype=np.int64)
    apart, aside = (_centred(np.where(ok, each, 0.0), ok, n) for each in (np.broadcast_to(log_steps, ok.shape), logs))
    slope = np.divide((apart * aside).sum(axis=-1), (apart**2).sum(axis=-1), out=np.full(n.shape, np.nan), where=n > 1)
    return order, slope, n


def _centred(values: Array, ok: npt.NDArray[np.bool_], n: npt.NDArray[np.int64]) -> Array:
    """Distances from the mean over the last axis, of those that are ok; zero for the others."""
    mean = np.divide(values.sum(axis=-1), n, out=np.zeros(n.shape), where=n > 0)
    return np.where(ok, values - mean[..., None], 0.0)


def _with_intervals(
    data: xr.Dataset, values: xr.DataArray, along: str, laid_out: Layout, of: str, how: Interval,
    runs: xr.DataArray | None,
) -> xr.Dataset:  # fmt: skip
    """The orders and slopes with their standard errors and intervals."""
    steps, kernel = _steps(values, along), kernel_of(of)[0]

    def on_points(samples: Array, cells: Numbers) -> list[Array]:
        sample_units = laid_out.units(samples, cells)
        shape = sample_units.shape[:-3]
        found = np.full((*shape, 2, len(steps)), np.nan)
        counts = np.zeros(shape)
        for place in np.ndindex(*shape):
            there = (~np.isnan(sample_units[place])).any(axis=(0, 2))
            counts[place] = there.sum()
            if counts[place] >= how.min_units and not np.isinf(sample_units[place]).any():
                found[place] = _errors(sample_units[place][:, there], steps, kernel, how)
        return [found[..., 0, :], found[..., 1, 0], counts]

    outputs = {"order_se": (along,), "slope_se": (), "units": ()}
    found = reduced(values, laid_out.dims, on_points, outputs, along=[along], runs=runs)
    # for n - 1 = 0 there is no quantile; the standard error is NaN there in any case
    t = xr.apply_ufunc(lambda n: stdtrit(np.maximum(n - 1.0, 1.0), (1.0 + how.confidence) / 2.0), found["units"])
    for name in ("order", "slope"):
        error = found[f"{name}_se"].transpose(*data[name].dims)
        data[f"{name}_se"] = error.assign_attrs(long_name=f"standard error of the {data[name].attrs['long_name']}")
        ends = [data[name] - t * error, data[name] + t * error]
        data[f"{name}_ci"] = xr.concat(ends, dim=BOUND).transpose(..., BOUND)
        words = f"{100.0 * how.confidence:g}% confidence interval of the {data[name].attrs['long_name']}"
        data[f"{name}_ci"].attrs = {"long_name": words}
    return data.assign_coords({BOUND: ["lower", "upper"]})


def _errors(units: Array, steps: Array, kernel: Kernel, how: Interval) -> Array:
    """Return the standard errors (2, K) of order and slope from units (K, n, k).  The slope has column 0 only."""
    errors = resampled_statistic(units, kernel, how.resamples, how.seed)
    order, slope, _ = orders(errors.T, steps)
    found = np.full((2, len(steps)), np.nan)
    known = np.isfinite(order).any(axis=0)
    found[0, known] = np.nanstd(order[:, known], axis=0)
    found[1, 0] = np.nanstd(slope) if np.isfinite(slope).any() else np.nan
    return found


def eoc_table(data: xr.Dataset, question: Question, along: str = "") -> str:
    """The table of observed orders of the question's first variable along an axis ("": the numeric one there is).

    Over the dimensions `over` that the variable has; the statistic is the question's first, or the mean.  Raises as
    `summary_table`, and InputError where there is no such axis, or which one is open.
    """
    values = select_runs(data[asked_variables(data, question)[0]], question.at)
    over = [dim for dim in question.over if dim in values.dims]
    numeric = [str(dim) for dim in values.dims if dim not in over and values[dim].dtype.kind in "iuf"]
    if not along and len(numeric) != 1:
        raise InputError(f"`--orders` must name one of the numeric axes ({', '.join(numeric) or 'there is none'})")
    if along in over:
        raise InputError(f"`--orders` must name another axis than `--over`, got {along} for both")
    of = question.statistics[0] if question.statistics else "mean"
    found = observed_orders(
        values, along or numeric[0], over, of=of, interval=question.interval, units=question.units,
        missing=question.missing, planned=select_runs(data["run_key"], question.at),
    )  # fmt: skip
    return orders_table(found, along or numeric[0], of, question.form, question.numbers)


def orders_table(
    found: xr.Dataset, along: str, of: str, form: str = "text", numbers: NumberFormat = NumberFormat(3)
) -> str:
    """The table of `observed_orders` in one of `FORMATS`; its last row has the least-squares slopes.

    found: the statistic `of` over `along` and other dimensions.  Each point of the others is a series with two columns:
    the statistic, with k/n if runs are missing, and the order between this row and the row above.  Series without any
    run are left out.  Raises ParameterError for an unknown format.
    """
    if form not in FORMATS:
        raise ParameterError("format", f"one of {', '.join(FORMATS)}", form)
    rest = [str(dim) for dim in found["slope"].dims]
    places = [place for place in np.ndindex(*found["slope"].shape) if (_at(found, rest, place)["n_planned"] > 0).any()]
    headings = [" ".join(words) for words in product(*(across(found, dim) for dim in rest))]
    series = [headings[int(np.ravel_multi_index(place, found["slope"].shape)) if rest else 0] for place in places]
    columns = [_series(_at(found, rest, place), along, of, numbers, form) for place in places]
    labels = [*shown(found, along), "slope"]
    body = [[label, *(cell for pair in row for cell in pair)] for label, *row in zip(labels, *columns, strict=True)]
    name = str(of)
    if form == "latex":
        return _latex(along, name, series, body)
    header = [along, *(f"{one} {each}".strip() for one in series for each in (name, EOC))]
    return rendered(header, body, form)


def _at(found: xr.Dataset, rest: Sequence[str], place: Sequence[int]) -> xr.Dataset:
    return found.isel(dict(zip(rest, map(int, place), strict=True)))


def _series(one: xr.Dataset, along: str, of: str, numbers: NumberFormat, form: str) -> list[tuple[str, str]]:
    """Number and order of each row of one series, then nothing and the slope with its interval."""
    none = "--" if form == "latex" else "" if form == "csv" else "-"
    number = (lambda value: f"${numbers.latex(value)}$") if form == "latex" else numbers.text
    cells = []
    for value, order, n_ok, n_planned in zip(
        *(one[name].transpose(along).values.tolist() for name in (of, "order", "n_ok", "n_planned")), strict=True
    ):
        lacking = f" {n_ok}/{n_planned}" if n_ok < n_planned else ""
        text = number(value) + lacking if math.isfinite(value) else f"{none}{lacking}"
        cells.append((text, _order(order, none, form)))
    slope = _order(float(one["slope"]), none, form)
    if "slope_ci" in one and bool(np.isfinite(one["slope_ci"]).all()) and form != "csv":
        ends = [_order(float(one["slope_ci"][{BOUND: i}]), none, form) for i in (0, 1)]
        slope += f" [{', '.join(ends)}]"
    return [*cells, ("", slope)]


def _order(value: float, none: str, form: str) -> str:
    if not math.isfinite(value):
        return none
    return f"${value:.2f}$" if form == "latex" else f"{value:.2f}"


def _latex(along: str, name: str, series: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A tabular of booktabs, with the series above their two columns."""
    above = " & ".join(["", *(rf"\multicolumn{{2}}{{c}}{{{escaped(one)}}}" for one in series)]) + r" \\"
    rules = " ".join(rf"\cmidrule(lr){{{2 * i + 2}-{2 * i + 3}}}" for i in range(len(series)))
    header = " & ".join([escaped(along), *[escaped(name), EOC] * len(series)]) + r" \\"
    rows = [" & ".join([escaped(row[0]), *row[1:]]) + r" \\" for row in body]
    return "\n".join(
        [
            "% experimental orders of convergence, in the last row least-squares slopes; needs the package booktabs",
            rf"\begin{{tabular}}{{@{{}}l{'cc' * len(series)}@{{}}}}",
            r"\toprule",
            *([above, rules] if any(series) else []),
            header,
            r"\midrule",
            *rows[:-1],
            r"\midrule",
            rows[-1],
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )
