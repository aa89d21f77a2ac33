"""Compute the shares of axes, sampled parameters and seeds in the variance of a variable."""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.analysis import runs as study_runs
from evogt_study.analysis import statistics
from evogt_study.analysis.runs import LISTED_RULES, SEED, Design, SamplePoints, find_points, read_design
from evogt_study.analysis.statistics import BOUND, MISSING_POLICIES, NOTE, RUN_COUNTS, UNIT_COUNTS, keep_coordinates
from evogt_study.errors import InputError
from evogt_study.inference import sensitivity as estimates
from evogt_study.inference.intervals import Interval
from evogt_study.inference.kernels import Array, Bools, divide, drop_infinite, logarithms
from evogt_study.inference.polynomial_chaos import MIN_POINTS, Bases, compute_fit_moments, compute_shapley_effects
from evogt_study.schema.variables import GEOMETRIC_MEAN, Status, read_direction, to_status

PARAMETER, OTHER, SOURCE, AXIS = "parameter", "other", "source", "axis"
RUN, _MEAN = "run", "mean"  # shares of the variance of one run with a fresh seed, or of the mean over the seeds
_METHODS = SALTELLI, MORRIS, CHAOS, SHAPLEY = "saltelli", "morris", "polynomial_chaos", "shapley"
STATUS = "run_status"
_LONG_NAMES = {
    "first_order": "first-order Sobol index", "total": "total Sobol index", "shapley": "Shapley effect",
    "second_order": "second-order Sobol index", "seed_share": "share of the seed in the variance",
    "unexplained": "share of the variance that the polynomials do not explain", "mu": "mean elementary effect",
    "mu_star": "mean magnitude of the elementary effects", "sigma": "standard deviation of the elementary effects",
    "n_ok": "number of units with all runs", "n_planned": "number of planned units",
    NOTE: "warnings about the indices",
}  # fmt: skip
_INDEX_DIMS = {"second_order": (PARAMETER, OTHER), "seed_share": (), "unexplained": ()}  # default: (PARAMETER,)
MISSING_RUNS_NOTE = "runs without a value are left out (the sensitivity of run_status shows why they fail)"


def sensitivity(
    values: xr.DataArray, over: str | Iterable[str] | None = None, *, method: str = "", estimand: str = RUN,
    parameters: Sequence[str] | None = None, log: bool = False, interval: Interval = Interval(),
    missing: str = "warn", planned: xr.DataArray | None = None, design: Design | None = None,
) -> xr.Dataset:  # fmt: skip
    """Return Sobol indices, Shapley effects or elementary effects of a sample.

    Parameters
    ----------
    values : DataArray
        Values of one variable.  To find the parameters that explain failures, use `run_status`, which counts as 1 for a
        run that is not ok, else as 0.
    over : str or list of str, optional
        Dimensions of the sample, and `seed` to pool the seeds.  Default: the dimension along which several parameters
        change, and seed.  Several dimensions form a product, in which an axis is a parameter.
    method : {"saltelli", "morris", "polynomial_chaos", "shapley"}, optional
        The default is saltelli or morris if the points have this design, else polynomial_chaos.  Use shapley for
        parameters that depend on each other.
    estimand : {"run", "mean"}, default "run"
        Shares of the variance of one run with a fresh seed, or of the mean over the seeds.
    parameters : list of str, optional
        Use only these parameters along `over`.
    log : bool, default False
        Use the logarithms of the values.
    interval : Interval
        Confidence of the intervals, and number and seed of the resamples of elementary effects.
    missing, planned, design
        `missing` and `planned` are as in `evs.summary`.  `design` states the random streams, for example
        `Design.of(values, common="all")`.

    Returns
    -------
    xarray.Dataset
        Indices along `parameter`: first_order(_ci) and total(_ci), shapley(_ci) and first_order(_ci), or mu,
        mu_star(_ci) and sigma.  Some methods add second_order(_ci), seed_share(_ci) and unexplained.  n_ok and
        n_planned count blocks, trajectories or points.  The variable note states assumptions.

    Raises
    ------
    InputError, ParameterError
        If a name or an option is unknown, points do not suit the method, or parameters depend on each other.

    Examples
    --------
    >>> x = np.random.default_rng(0).random((40, 2))
    >>> y = xr.DataArray(x[:, 0], {"a": ("point", x[:, 0]), "b": ("point", x[:, 1])}, "point")
    >>> sensitivity(y).first_order.values.round(1) + 0.0
    array([1., 0.])
    """
    study_runs.check_array(values)
    values = _to_numbers(values, log)
    default = study_runs.find_sample_dimensions(values)[:1]
    if over is None and not default:
        dims = ", ".join(map(str, values.dims)) or "none"
        raise InputError(f"`over` must be given if no dimension is a sample, got {dims}. Use e.g. over={dims!r}")
    default += [SEED] if SEED in values.dims else []
    pooled = statistics.check_dimensions(values, default if over is None else over)
    statistics.check_options(missing=(missing, MISSING_POLICIES), estimand=(estimand, (RUN, _MEAN)))
    design, of_run = design or Design.of(values, planned=planned), estimand == RUN
    sample = find_points(values, pooled, parameters)
    name = choose_method(method, sample)
    notes = _check_independent(values, sample, design, name)
    fresh = design.is_fresh(sample.dims) if sample.seeds else False
    estimator = _Estimator(sample, name, fresh, of_run, interval)
    shape = (-1, len(sample.points), values.sizes[SEED] if sample.seeds else 1)

    def on_samples(samples: Array, once: Bools) -> list[Array]:
        rows, there = samples.reshape(shape), once.reshape(shape)
        found = estimator.compute(drop_infinite(rows))
        units = there.any(axis=2).reshape(len(rows), -1, estimator.members).any(axis=2).sum(axis=1)
        known, infinite = ((each(rows) & there).sum(axis=(1, 2)) for each in (lambda a: ~np.isnan(a), np.isinf))
        every = (*found, units, known, there.sum(axis=(1, 2)), infinite)
        return [each.astype(float).reshape((*samples.shape[:-1], *each.shape[1:])) for each in every]

    outputs = {**estimator.outputs, **dict.fromkeys((*UNIT_COUNTS, *RUN_COUNTS, "infinite"), ())}
    sizes = dict.fromkeys((PARAMETER, OTHER), len(sample.names))
    pooled = [*sample.dims, *([SEED] if sample.seeds else [])]
    runs = study_runs.number_planned_runs(values, planned)
    marks = None if runs is None else runs >= 0
    found = statistics.reduce_blocks(values, pooled, on_samples, outputs, runs=marks, sizes=sizes)
    notes += [] if not sample.seeds or name == SHAPLEY else list(design.stream_assumptions)
    notes += [*estimator.notes, *design.assumptions]

    def describe(infinite: float, n_ok: float, n_planned: float) -> str:
        return "; ".join([*["infinite values"] * bool(infinite), *[MISSING_RUNS_NOTE] * (n_ok < n_planned), *notes])

    numbers = (found[name] for name in ("infinite", *RUN_COUNTS))
    note = xr.apply_ufunc(describe, *numbers, vectorize=True, output_dtypes=[object])
    found = statistics.report_missing_runs(values, found.drop_vars("infinite"), planned, missing).assign({NOTE: note})
    of, units = str(values.attrs.get("long_name", values.name)), str(values.attrs.get("units", "1"))
    for key in map(str, found.data_vars):
        text = _LONG_NAMES.get(key) or f"interval of the {_LONG_NAMES[key.removesuffix('_ci')]}"
        own = units if key.startswith(("mu", "sigma")) else "1"
        found[key].attrs = {"long_name": f"{text} of {of}", "units": own}
    labels = {dim: list(sample.names) for dim in (PARAMETER, OTHER) if dim in found.dims} | statistics.BOUNDS
    coordinates: dict[Any, Any] = {**keep_coordinates(values, pooled), **labels}
    return found.assign_coords(coordinates).assign_attrs(method=name, over=", ".join(pooled))


def choose_method(method: str, sample: SamplePoints) -> str:
    """Return `method`, or the default for the design of the points.  Raises InputError for an unsuitable method."""
    statistics.check_options(method=(method, ("", *_METHODS)))
    fits = {SALTELLI: estimates.find_saltelli_block(sample.points), MORRIS: estimates.is_morris(sample.points)}
    fitting = [each for each in _METHODS if fits.get(each, True)]
    if method and method not in fitting:
        message = f"one of {', '.join(fitting)} for the points along {', '.join(sample.dims)}"
        raise InputError(f"`method` must be {message}, got {method!r}")
    return method or fitting[0]


def _check_independent(values: xr.DataArray, sample: SamplePoints, design: Design, method: str) -> list[str]:
    """Return notes on the independence of the parameters.  Raises InputError for dependent parameters."""
    notes, rules = [], {each.dim: each.rule for each in design.samples}
    planned = design.planned.any([dim for dim in design.planned.dims if dim not in sample.dims]).transpose(*sample.dims)
    kept = planned.values.reshape(-1)
    # points that are excluded although each of their values occurs
    inside = np.all([np.isin(column, column[kept]) for column in sample.points.T], axis=0)
    odd, names = int((inside & ~kept).sum()), ", ".join(sample.names)
    reason = f"{names} depend on each other, because {odd} points inside their ranges are excluded" if odd else ""
    places = np.indices(tuple(values.sizes[dim] for dim in sample.dims)).reshape(len(sample.dims), -1)
    for number, dim in enumerate(sample.dims):
        own = [i for i, name in enumerate(sample.names) if sample.along[name] == dim]
        if len(own) < 2 or rules.get(dim, "unstated") not in LISTED_RULES:
            continue
        _, first = np.unique(places[number][kept], return_index=True)
        points, own_names = sample.points[kept][first][:, own], [sample.names[i] for i in own]
        reason = reason or estimates.describe_dependence(points, own_names)
        if not reason and method != SHAPLEY:
            least = estimates.find_detectable_correlation(*points.shape)
            text = f"a test found no dependence of {', '.join(own_names)}"
            notes.append(f"{text}, but it may miss correlations below {least:.2f}")
    if reason and method not in (SHAPLEY, MORRIS):
        raise InputError(f'{reason}. Sobol indices need independent parameters. Use method="shapley".')
    return [reason, *notes] if reason else notes


class _Estimator:
    """Estimator of the indices of a sample.  `outputs` has the names and dimensions of the indices."""

    def __init__(self, sample: SamplePoints, method: str, fresh: bool, of_run: bool, how: Interval) -> None:
        self.sample, self.method, self.fresh, self.of_run, self.how = sample, method, fresh, of_run, how
        self.notes: list[str] = []
        self.bases: tuple[bytes, Bases] | None = None
        d = len(sample.names)
        block = estimates.find_saltelli_block(sample.points) if method == SALTELLI else 0
        self.members = {SALTELLI: block, MORRIS: d + 1}.get(method, 1)
        self.pairs = list(combinations(range(d), 2)) if block == 2 * d + 2 else []
        names = {
            SALTELLI: ["first_order", "total", *["second_order"] * bool(self.pairs)],
            CHAOS: ["first_order", "total", "unexplained"],
            SHAPLEY: ["shapley", "first_order"], MORRIS: ["mu", "mu_star", "sigma"],
        }[method]  # fmt: skip
        names += ["seed_share"] if sample.seeds and of_run and method in (SALTELLI, CHAOS) else []
        self.outputs: dict[str, tuple[str, ...]] = {}
        for name in names:
            self.outputs[name] = _INDEX_DIMS.get(name, (PARAMETER,))
            if name not in ("unexplained", "mu", "sigma"):
                self.outputs[f"{name}_ci"] = (*self.outputs[name], BOUND)

    def compute(self, values: Array) -> list[Array]:
        """Return the indices for values (L, n, R) in the order of `outputs`, then n_ok."""
        sizes, cells = dict.fromkeys((PARAMETER, OTHER), len(self.sample.names)) | {BOUND: 2}, []
        for each in values:
            empty = {name: np.full([sizes[dim] for dim in dims], np.nan) for name, dims in self.outputs.items()}
            cells.append(empty | self._estimate(each))
        return [np.array([cell[name] for cell in cells], dtype=float) for name in [*self.outputs, "n_ok"]]

    def _estimate(self, y: Array) -> dict[str, Any]:
        """Return Sobol indices, Shapley effects or elementary effects of values (n, R)."""
        if self.method == MORRIS:  # effects on the mean over the seeds with values along the whole trajectory
            paths = y.reshape(-1, self.members, y.shape[1])
            there = np.isfinite(paths).all(axis=1, keepdims=True)
            means = divide(np.where(there, paths, 0.0).sum(axis=-1), there.sum(axis=-1) * np.ones(self.members))
            return estimates.compute_effects(means.ravel(), self.sample.points, self.sample.levels, self.how)
        known, seeds, d = np.asarray(np.isfinite(y).any(axis=1)), np.isfinite(y).any(axis=0), len(self.sample.names)
        empty = {"n_ok": int(known.reshape(-1, self.members).any(axis=1).sum())}
        if not estimates.has_spread(y) or (self.method != SALTELLI and known.sum() < MIN_POINTS):
            return empty
        kept, points = y[known][:, seeds], self.sample.points[known]
        if self.method == SHAPLEY:
            effects, alone = compute_shapley_effects(points, np.nanmean(kept, axis=1), self.how.confidence)
            return empty | _to_columns("shapley", effects) | _to_columns("first_order", alone)
        filled, unseen = estimates.fill_gaps(kept, common=not self.fresh, least=1), 0.0
        if self.method == SALTELLI:
            whole = np.full((len(y), filled.shape[1]), np.nan)
            whole[known] = filled
            moments = estimates.compute_block_moments(whole.reshape(-1, self.members, filled.shape[1]), d)
        else:
            mask, runs = known.tobytes(), 1.0 / float((1.0 / np.isfinite(kept).sum(axis=1)).mean())
            if self.bases is None or self.bases[0] != mask:  # other points have values than before
                self.bases = mask, Bases(points)
            moments, unseen = compute_fit_moments(self.bases[1], d, filled, runs, fresh=self.fresh)
        if moments is None:
            return empty
        p = estimates.compute_common_effect_p(filled) if self.fresh else 1.0
        if p < 1e-3:
            message = f"seeds have a common effect (p = {max(p, 1e-16):.1g}), although streams are independent"
            self.notes += [message] if message not in self.notes else []
        parts = moments.shares(fresh=self.fresh, of_run=self.of_run, confidence=self.how.confidence)
        found = _to_columns("first_order", parts[:d]) | _to_columns("total", parts[d : 2 * d])
        if self.pairs:
            table = np.full((d, d, 3), np.nan)
            table[tuple(np.transpose(self.pairs))] = parts[2 * d : -1]
            found |= _to_columns("second_order", table)
        found |= _to_columns("seed_share", parts[-1]) if filled.shape[1] > 1 else {}
        total = moments.variance + self.of_run * moments.seed
        return found | {"unexplained": np.array(unseen / total if total > 0.0 else np.nan), "n_ok": moments.n_ok}


def _to_columns(name: str, parts: Array) -> dict[str, Array]:
    return {name: parts[..., 0], f"{name}_ci": parts[..., 1:]}


def check_indices(found: xr.Dataset, values: xr.DataArray) -> xr.Dataset:
    """Return `found`.  Raises InputError if `found` has no index because axes or values do not vary."""
    if found["first_order" if "first_order" in found else "mu"].notnull().any():
        return found
    dims = [dim for dim in found.attrs["over"].split(", ") if dim != SEED]
    points = math.prod(values.sizes[dim] for dim in dims)
    if points < MIN_POINTS and not any(read_design(values, dim) for dim in dims):
        message = f"`over` must name a sample of at least {MIN_POINTS} points, got {', '.join(dims)} with {points}"
        raise InputError(f"{message}. Use evs.variance_shares for axes")
    numbers = _to_numbers(values, log=False)
    low, high = float(numbers.min()), float(numbers.max())
    if low == high:
        raise InputError(f"`{numbers.name}` must vary to depend on parameters, got {low:g} for all runs")
    return found


def _to_numbers(values: xr.DataArray, log: bool) -> xr.DataArray:
    """Return the values or their logarithms.  The status becomes 1 for runs that are not ok, and NaN without a run."""
    if values.name == STATUS:
        codes = values.copy(data=to_status(values))
        failed = (codes != Status.ok).where(codes != Status.not_run)
        values = failed.rename("failure").assign_attrs(long_name="failure of the run", units="1")
    if not log:
        return values
    named = values.attrs | {"long_name": f"log of {values.attrs.get('long_name', values.name)}", "units": "1"}
    logs: xr.DataArray = xr.apply_ufunc(lambda each: logarithms(each.astype(float)), values, dask="allowed")
    return logs.assign_attrs(named)


def variance_shares(
    values: xr.DataArray, axes: Sequence[str] | None = None, over: str = SEED, *, estimand: str = RUN,
    order: int = 2, log: bool | None = None, confidence: float = 0.95, planned: xr.DataArray | None = None,
    design: Design | None = None,
) -> xr.Dataset:  # fmt: skip
    """Return the shares of crossed axes, interactions and seeds in a variance.

    Parameters
    ----------
    values : DataArray
        Values over a full grid of axes and seeds.
    axes : list of str, optional
        Axes of the grid, by default all dimensions except `over`.  The result keeps all other dimensions.
    over : str, default "seed"
        Dimension of the seeds.
    estimand : {"run", "mean"}, default "run"
        Shares of the variance of one run with a fresh seed, or of the mean over the seeds.
    order : int, default 2
        Largest number of axes of an interaction.  Larger interactions form the source "higher".
    log : bool, optional
        Use the logarithms of the values.  The default is True if the estimand of the variable is the geometric mean.
    confidence : float, default 0.95
        Confidence of the intervals.
    planned, design
        `planned` and `design` are as in `evs.sensitivity`.

    Returns
    -------
    xarray.Dataset
        share(_ci) and component along `source` ("a", "b", "a:b", "higher", then "seed" and "seed:setups" for common
        streams, else "run").  total(_ci) along `axis` is the share of all sources with this axis, without the seeds.
        n_ok and n_planned count the runs.  The variable note states assumptions.

    Raises
    ------
    InputError
        If `axes` has a sample, the study excludes a setup of the grid, or a setup has fewer than two values.

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
    statistics.check_options(estimand=(estimand, (RUN, _MEAN)))
    statistics.check_confidence(confidence)
    given = [str(dim) for dim in values.dims if dim != over] if axes is None else list(axes)
    dims = [dim for dim in statistics.check_dimensions(values, [*given, *({over} & {*values.dims})]) if dim != over]
    if not dims:
        raise InputError(f"`axes` must name an axis other than {over}, got none")
    design = design or Design.of(values, planned=planned)
    design.check_grid(dims)
    log = read_direction(values)[1] == GEOMETRIC_MEAN if log is None else log
    of_run = estimand == RUN
    rest = [str(dim) for dim in values.dims if dim not in (*dims, over)]
    statistics.check_dimension_names(rest, ("share", "component", "total", *UNIT_COUNTS, NOTE))
    seeded = values if over in values.dims else values.expand_dims(over)
    numbers = seeded.transpose(*rest, *dims, over).values.astype(float)
    if log and (numbers <= 0.0).any():
        raise InputError(f"`{values.name}` must be positive to have logarithms. Use log=False.")
    numbers = logarithms(numbers) if log else numbers
    fresh = design.is_fresh(dims) if over in values.dims else False
    shape, several = numbers.shape[: len(rest)], numbers.shape[-1] > 1
    subsets = [each for size in range(1, len(dims) + 1) for each in combinations(range(len(dims)), size)]
    named = {u: ":".join(sorted(dims[j] for j in u)) if len(u) <= order else "higher" for u in subsets}
    sources = list(dict.fromkeys(named.values()))
    if of_run and several:
        sources += ["run"] if fresh else ["seed", "seed:setups"]
    share, component = np.full((2, *shape, len(sources), 3), np.nan)
    total = np.full((*shape, len(dims), 3), np.nan)
    for place in np.ndindex(*shape):
        table = numbers[place]
        if np.isinf(table).any() or not estimates.has_spread(table):
            continue
        if np.isnan(table).all(axis=-1).any():
            raise InputError("`values` must have a value at each point of the grid. Select a full part with `sel`.")
        own, seeds = estimates.compute_grid_components(table, fresh=fresh, confidence=confidence)
        every = [(named[u], u, part) for u, part in own.items()]
        every += [(name, (), part) for name, part in seeds.items() if of_run]
        component[place] = [estimates.add_parts(part for name, _, part in every if name == each) for each in sources]
        for i, part in enumerate(component[place]):
            share[place][i] = estimates.divide_parts(part, estimates.add_parts(np.delete(component[place], i, axis=0)))
        for j in range(len(dims)):
            with_axis, others = ([part for _, u, part in every if (j in u) == inside] for inside in (True, False))
            total[place][j] = estimates.divide_parts(*map(estimates.add_parts, (with_axis, others)))
    no_interval = 1.0 if several else np.nan
    only_one = "no intervals, because each setup has one value"
    more = [f"of log({values.name})" if log else "", "" if several else only_one]
    made = xr.Dataset({
        "share": ((*rest, SOURCE), share[..., 0]), "share_ci": ((*rest, SOURCE, BOUND), share[..., 1:] * no_interval),
        "component": ((*rest, SOURCE), component[..., 0]), "total": ((*rest, AXIS), total[..., 0]),
        "total_ci": ((*rest, AXIS, BOUND), total[..., 1:] * no_interval),
        "n_ok": int((design.ok & design.planned).sum()), "n_planned": int(design.planned.sum()),
        NOTE: design.note(*more, streams=several),
    }, {SOURCE: sources, AXIS: list(dims), **statistics.BOUNDS})  # fmt: skip
    kept = {name: coord for name, coord in keep_coordinates(values, [*dims, over]).items() if name not in made.coords}
    return made.assign_coords(kept).assign_attrs(of=str(values.name), estimand=estimand)
