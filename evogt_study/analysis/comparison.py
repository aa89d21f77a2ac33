"""Compare the values of an axis with a test, a confidence interval and a conclusion for each setup."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.analysis import statistics
from evogt_study.analysis.runs import Design, Layout, format_coordinates, lay_out_units
from evogt_study.errors import InputError, ParameterError, name_error
from evogt_study.inference import comparisons as tests
from evogt_study.inference import kernels
from evogt_study.inference.comparisons import DIFFERENCE, MARGIN, RATIO, SHARE, Pairs
from evogt_study.inference.intervals import compute_share_interval
from evogt_study.inference.kernels import Array, Bools, is_two_valued
from evogt_study.schema.variables import GEOMETRIC_MEAN, HIGHER, LOWER, MEAN, NEAREST, WIN, parse_better, read_direction
from evogt_study.study.case_space import join_names

_LONG_NAMES = {
    "leader": "leading axis value", "rival": "axis value that is closest to the leader",
    "p_value": "p-value of the test that the leader is ahead of the rival",
    "significant": "the leader is significantly ahead of every other axis value",
    "n_common": "number of units with both values",
    "probability": "probability that the leader is ahead on a fresh unit that differs",
    "probability_ci": "confidence interval of probability (Clopper and Pearson)",
    "effect": "effect of the leader over the rival", "effect_ci": "confidence interval of effect",
    "conclusion": "conclusion in one sentence", "note": "assumptions and warnings",
    "n_ok": "number of complete units", "n_planned": "number of planned units",
    "failed": "share of runs without a value", "failed_ci": "confidence interval of failed (Wilson)",
    "over_leader": "effect of the value over the leader", "over_leader_ci": "confidence interval of over_leader",
    "p_over_leader": "p-value of over_leader", "scale": "scale of effect",
}  # fmt: skip


@dataclass(frozen=True)
class ComparisonSettings:
    """Settings of a comparison.  `sign` is -1 if higher values are better, else 1.  `prefix` names numeric values."""

    subject: str
    estimand: str
    direction: str
    target: float
    sign: int
    more: str
    is_nearest_share: bool
    scale: str
    omit: bool
    alpha: float
    unit: str
    margin: float
    prefix: str

    def format_claim(self, first: str, second: str, count: int) -> str:
        """Return the claim about the leader, such as "a has the lowest error of all 3; closest is b"."""
        if count == 2 and self.direction != NEAREST:
            return f"{first} has {'an' if self.more[0] in 'aeiou' else 'a'} {self.more} {self.subject} than {second}"
        of_all = f" of all {count}; closest is {second}" if count > 2 else ""
        if self.direction == NEAREST:
            return f"{first} has the {self.subject} nearest to {self.target:g}{of_all}"
        return f"{first} has the {self.more[:-2]}est {self.subject}{of_all}"


def compare(
    values: xr.DataArray, dim: str, over: str | Iterable[str] = "seed", *, estimand: str = "", better: str = "",
    units: str | Iterable[str] | None = None, margin: float = 0.0, scale: str = "", failures: str = "loss",
    family: str = "setup", confidence: float = 0.95, planned: xr.DataArray | None = None,
) -> xr.Dataset:  # fmt: skip
    """Compare the values of the axis `dim` on common units, such as seeds.

    Parameters
    ----------
    values : DataArray
        Values of one variable, such as ``ds.error``.
    dim : str
        Axis with the values to compare.
    over : str or list of str, default "seed"
        Dimensions to pool.
    estimand : {"win", "geometric_mean", "mean"}, optional
        The test is the exact sign test for win, and Student's test for geometric_mean and mean.  The default is
        `[output.estimand]` of the study, else win.
    better : str, optional
        "lower", "higher" or "nearest 0.95".  The default is `[output.better]` of the study.  Without a direction, the
        lowest value leads.
    units : str or list of str, optional
        Dimensions in `over` with independent points, by default the seed.  If a unit has several runs, the value that
        wins more of its runs wins the unit.
    margin : float, default 0
        Largest difference at which two values count as equal.  With the scale ratio, the difference is relative.
    scale : {"ratio", "difference"}, optional
        Scale of the effect.  The default is ratio if all values are positive, else difference.
    failures : {"loss", "omit"}, default "loss"
        With "loss", a failed run is worse than any value.  With "omit", the comparison leaves out the unit of a failed
        run.
    family : {"setup", "all"}, default "setup"
        Use "all" to adjust the tests for the number of setups (Holm).
    confidence : float, default 0.95
        Confidence of the intervals.  The level of the tests is 1 - confidence.
    planned : DataArray, optional
        Run keys or a boolean mask of the planned runs, as in `evs.summary`.

    Returns
    -------
    xarray.Dataset
        leader, rival, p_value, significant, n_common, probability(_ci), effect(_ci), conclusion and note over the other
        dimensions.  n_ok, n_planned, failed(_ci), over_leader(_ci) and p_over_leader have the dimension `dim` too.

    Raises
    ------
    InputError, ParameterError
        If a dimension or an option is unknown, or `dim` has a single value.

    Examples
    --------
    >>> x = xr.DataArray([[1.0, 2, 3, 4, 5, 6], [3.0, 6, 9, 9, 10, 18]], dims=("m", "seed"), coords={"m": ["a", "b"]})
    >>> print(compare(x.rename("error"), "m").conclusion.item())  # doctest: +ELLIPSIS
    a has a lower error than b on 6 of 6 seeds (p = 0.031, sign test). 95 % intervals: ...
    """
    statistics.check_confidence(confidence)
    statistics.check_options(failures=(failures, ("loss", "omit")), family=(family, ("setup", "all")))
    prefix = f"{dim} = " if dim in values.coords and values[dim].dtype.kind in "iuf" else ""
    options = {"omit": failures == "omit", "alpha": 1.0 - confidence, "margin": margin, "prefix": prefix}
    over_dims = check_paired_dimensions(values, dim, over)
    if values.sizes[dim] < 2:
        raise InputError(f"`dim` must have at least two values, got {dim} with {values.sizes[dim]}")
    statistics.check_dimension_names(values.dims, _LONG_NAMES)
    design, laid_out = Design.of(values, planned=planned), lay_out_units(values, over_dims, units, planned, paired=dim)
    rest = [str(each) for each in values.dims if each not in (dim, *laid_out.dims)]
    runs = xr.ones_like(values, dtype=bool)
    if laid_out.runs is not None:
        runs = laid_out.runs.broadcast_like(values.reset_coords(drop=True))
    by_units = (-1, values.sizes[dim], laid_out.count, laid_out.within)
    table, once = (each.transpose(*rest, dim, *laid_out.dims).values.reshape(by_units) for each in (values, runs))
    setups = list(zip(np.where(once, table.astype(float), np.nan), once, strict=True))
    names = format_coordinates(values, dim)
    settings = _read_settings(values, estimand, better, scale, laid_out, options)
    found = [_compare_setup(*each, names, settings) for each in setups]
    p = np.array([each["p_value"] for each in found])
    several = int((~np.isnan(p)).sum())
    more = f'p-values are not adjusted for the {several} setups (the family "all" adjusts them)' if several > 1 else ""
    if family == "all":
        more = f"tests are adjusted for {several} setups together (Holm)"
        levels, p = tests.find_holm_levels(p, settings.alpha).tolist(), tests.adjust_p_values(p)
        own = (replace(settings, alpha=level) for level in levels)
        found = [_compare_setup(*setup, names, each) for setup, each in zip(setups, own, strict=True)]
    data, shape = {}, [values.sizes[each] for each in rest]
    for each, p_value in zip(found, p, strict=True):
        each |= {"p_value": p_value, "note": design.note(*each["note"], more, streams=False)}
    for name, long_name in _LONG_NAMES.items():
        inner = [dim] if np.ndim(found[0][name]) and name not in ("effect_ci", "probability_ci") else []
        inner += [statistics.BOUND] if name.endswith("_ci") else []
        column = np.array([each[name] for each in found], dtype=object if isinstance(found[0][name], str) else None)
        data[name] = ((*rest, *inner), column.reshape((*shape, *column.shape[1:])), {"long_name": long_name})
    data["effect"][2]["units"] = "1" if settings.scale != DIFFERENCE else str(values.attrs.get("units", "1"))
    made = xr.Dataset(data).assign_coords(statistics.keep_coordinates(values, over_dims) | statistics.BOUNDS)
    direction = f"{NEAREST} {settings.target:g}" if settings.direction == NEAREST else settings.direction
    return made.assign_attrs(
        dim=dim, over=" ".join(over_dims), of=str(values.name), estimand=settings.estimand, better=direction,
        scale=settings.scale, unit=settings.unit, confidence=1.0 - settings.alpha,
    )  # fmt: skip


def _read_settings(
    values: xr.DataArray, estimand: str, better: str, scale: str, laid_out: Layout, options: dict[str, Any]
) -> ComparisonSettings:
    """Return the settings of a comparison from the options, the attributes of the variable and its values."""
    declared, stated, pooled = read_direction(values), estimand, laid_out.within > 1
    estimand = estimand or declared[1] or WIN
    statistics.check_options(estimand=(estimand, tests.ESTIMANDS), scale=(scale, ("", RATIO, DIFFERENCE)))
    direction, target = parse_better(better or declared[0])
    numbers = np.ravel(values.values).astype(float)
    two_valued, known = is_two_valued(numbers), numbers[~np.isnan(numbers)]
    known = np.abs(known - target) if direction == NEAREST else known
    positive = bool(known.size) and bool((known > 0.0).all())
    if estimand == GEOMETRIC_MEAN and not positive and known.size:
        if stated:
            raise ParameterError("estimand", "win or mean for values that are not positive", estimand)
        estimand = WIN  # the method declares its estimand for all studies
    if scale == RATIO and not positive and known.size:
        raise ParameterError("scale", "difference for values that are not positive", scale)
    if estimand == WIN and (pooled or two_valued):
        scale = MARGIN if pooled else SHARE
    elif estimand == GEOMETRIC_MEAN:
        scale = RATIO
    else:
        shares = direction == HIGHER and bool((known <= 1.0).all())  # such as accuracies
        scale = scale or (RATIO if positive and not shares else DIFFERENCE)
    name = str(values.name or "value").replace("_", " ")
    subject = name if estimand == WIN else f"{estimand.replace('_', ' ')} {name}"
    more = f"nearer to {target:g}" if direction == NEAREST else direction or LOWER
    shares, sign = direction == NEAREST and two_valued and estimand == WIN, -1 if direction == HIGHER else 1
    return ComparisonSettings(
        subject, estimand, direction, target, sign, more, shares, scale, unit=laid_out.unit, **options
    )


def _compare_setup(values: Array, planned: Bools, names: Sequence[str], settings: ComparisonSettings) -> dict[str, Any]:
    """Return the results of a setup by variable name, from the values (L, U, k) of k runs in each unit."""
    count, failed, units = len(names), planned & np.isnan(values), np.asarray(planned.any(axis=-1))
    share = kernels.divide(failed.sum(axis=(1, 2)).astype(float), planned.sum(axis=(1, 2)))
    found: dict[str, Any] = {
        "leader": "", "rival": "", "p_value": np.nan, "significant": False, "n_common": 0, "probability": np.nan,
        "probability_ci": np.full(2, np.nan), "effect": np.nan, "effect_ci": np.full(2, np.nan), "note": [],
        "n_ok": (units & ~failed.any(axis=-1)).sum(axis=-1), "n_planned": units.sum(axis=-1), "failed": share,
        "failed_ci": compute_share_interval(np.where(planned, failed, np.nan), 0.95), "scale": settings.scale,
        "over_leader": np.full(count, np.nan), "over_leader_ci": np.full((count, 2), np.nan),
        "p_over_leader": np.full(count, np.nan), "conclusion": "No run has a value.",
    }  # fmt: skip
    part: list[int] = np.flatnonzero(units.any(axis=-1)).tolist()
    if len(part) < 2 or np.isnan(values).all():
        return found if len(part) > 1 else found | {"conclusion": "Fewer than two values have runs."}
    lost = [f"{settings.prefix}{names[i]}: {bad} of {planned[i].sum()}" for i in part if (bad := int(failed[i].sum()))]
    losses = settings.estimand == WIN and not settings.is_nearest_share and not settings.omit
    how = "counted as losses" if losses else "left out as if they failed at random"
    if settings.omit:
        planned = planned & ~np.asarray(failed[part].any(axis=(0, 2)))[:, None]
        failed = failed & planned
    sizes = np.abs(values - settings.target) if settings.direction == NEAREST else values
    margins = tests.compute_unit_margins(np.where(np.isnan(sizes), np.inf, settings.sign * sizes), planned)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.log(sizes) if settings.estimand == GEOMETRIC_MEAN else sizes
    numbers = kernels.divide(np.where(planned, each, 0.0).sum(axis=-1), planned.sum(axis=-1))  # NaN if a run failed
    if settings.estimand == WIN:
        pairs = tests.compare_wins(margins)
    else:
        has_failed = np.asarray(failed.any(axis=(1, 2)))
        pairs = tests.compare_means(numbers, settings.sign, settings.estimand, has_failed, tuple(names), settings.unit)
    lead, rivals = tests.find_leader(pairs, settings.alpha, np.array(part), numbers)
    if settings.is_nearest_share:
        margins = tests.compute_unit_margins(values, planned & ~failed)
        lead, rivals, p = _find_nearest_share(values, part, settings.target)
        pairs.p[lead, rivals] = p
    _add_effects(found, numbers, margins, pairs, lead, rivals, settings)
    rival, wins, losses_of = rivals[0], pairs.wins[lead], pairs.losses[lead]
    withheld = pairs.reason.get((lead, rival), "")
    ends = [tests.compute_win_interval(int(wins[j]), int(wins[j] + losses_of[j]), settings.alpha) for j in rivals]
    found |= {
        "leader": names[lead], "rival": names[rival], "n_common": int(pairs.n[lead, rival]), "withheld": withheld,
        "p_value": found["p_over_leader"][rival], "wins": int(wins[rival]), "losses": int(losses_of[rival]),
        "significant": not withheld and bool(pairs.p[lead, rival] <= settings.alpha), "count": len(part),
        "open": [names[j] for j in rivals if pairs.p[lead, j] > settings.alpha], "least": min(low for low, _ in ends),
        "shares": np.nan_to_num(kernels.mean(values[[lead, rival]].reshape(2, -1)), nan=0.0).tolist(),
    }  # fmt: skip
    if settings.estimand == WIN and wins[rival] + losses_of[rival]:
        found |= {"probability": found["wins"] / (found["wins"] + found["losses"]), "probability_ci": np.array(ends[0])}
    failures = f" Runs without a value, {how}: {'; '.join(lost)}." if lost else ""
    found["conclusion"] = format_conclusion(replace(settings, scale=found["scale"]), found) + failures
    means = numbers[[lead, rival]].mean(axis=-1)
    if settings.estimand == WIN and found["scale"] == RATIO and settings.sign * (means[0] - means[1]) > 0.0:
        order = f"{names[lead]} {means[0]:.3g}, {names[rival]} {means[1]:.3g}"
        found["note"] += [f"the sample means have the other order ({order}), because a few values dominate them"]
    return found


def _add_effects(
    found: dict[str, Any], units: Array, margins: Array, pairs: Pairs, lead: int, rivals: Sequence[int],
    settings: ComparisonSettings,
) -> None:  # fmt: skip
    """Add the effect of each value over the leader, its interval and p-value, and the effect of the leader."""
    scale, of, alpha = settings.scale, settings.estimand, settings.alpha
    tested = [j for j in rivals if (lead, j) not in pairs.reason]
    pairs_of_means = [(i, k) for j in tested for i, k in ((lead, j), (j, lead))] if (of, scale) == (MEAN, RATIO) else []
    if any(tests.estimate_effect_of_means(units[i], units[k], of, scale, alpha) is None for i, k in pairs_of_means):
        scale = found["scale"] = DIFFERENCE
        found["note"] += ["a mean is not clearly positive, so effects are differences"]
    worst = -np.inf if settings.sign < 0 else np.inf
    for j in rivals if of == WIN else tested:
        found["p_over_leader"][j] = pairs.p[lead, j]
        if of == WIN:
            effect = tests.estimate_effect_of_wins(units[j], units[lead], margins[j, lead], scale, alpha, worst)
        else:
            made = tests.estimate_effect_of_means(units[j], units[lead], of, scale, alpha)
            effect = made or (np.nan, (np.nan, np.nan))
        found["over_leader"][j], found["over_leader_ci"][j] = effect
    found["over_leader"][lead] = 1.0 if scale == RATIO else 0.0
    effect, ends = found["over_leader"][rivals[0]], found["over_leader_ci"][rivals[0]][::-1]
    with np.errstate(divide="ignore"):
        found["effect"], found["effect_ci"] = (1.0 / effect, 1.0 / ends) if scale == RATIO else (-effect, -ends)


def _find_nearest_share(values: Array, part: Sequence[int], target: float) -> tuple[int, list[int], Array]:
    """Return the sample whose share is nearest to a target, its rivals (closest first), and their p-values."""
    # |p - t| < |q - t| if (p - q)(p + q - 2t) < 0: McNemar's test decides the first sign, an interval the second
    shares = np.array([np.nanmean(each) if (~np.isnan(each)).any() else np.inf for each in values])
    lead, found = part[int(np.abs(shares[part] - target).argmin())], dict[int, float]()
    for j in (each for each in part if each != lead):
        both = values[[lead, j]]
        both = both[:, ~np.isnan(both).any(axis=(0, 2))]
        apart = both[0].mean(axis=-1) - both[1].mean(axis=-1)
        up, down = int((apart > 0).sum()), int((apart < 0).sum())
        p = float(tests.compute_sign_p(up, down)) if both.size and (up > down) == (both.mean() < target) else 1.0
        low, high = 0.0, 1.0  # the level at which the interval begins to hold the target
        for _ in range(30 if both.size else 0):
            middle = max((low + high) / 2.0, 1e-9)
            ends = compute_share_interval(both.transpose(1, 0, 2).reshape(both.shape[1], -1), 1.0 - middle)
            low, high = (low, middle) if not ends[0] <= target <= ends[1] else (middle, high)
        found[j] = max(p, high)
    rivals = sorted(found, key=lambda j: -found[j])
    return lead, rivals, np.array([found[j] for j in rivals])


def check_paired_dimensions(values: xr.DataArray, dim: str, over: str | Iterable[str]) -> list[str]:
    """Return `over` as a list of dimensions.  Raises InputError unless `dim` is another dimension of the values."""
    over_dims = statistics.check_dimensions(values, over)
    others = [str(name) for name in values.dims if name not in over_dims]
    if dim not in others:
        raise name_error("dim", dim, others or ["none, since `over` names all"])
    return over_dims


def format_with_interval(value: float, ends: Sequence[float], neutral: float) -> str:
    """Return a number and its interval, with enough digits to distinguish them from the neutral value."""
    texts, numbers = [""], (value, *ends)
    for digits in (2, 3, 4, 6, 9):
        texts = [f"{v:#.{digits}g}".rstrip(".") if 1e-4 < abs(v) < 100 else f"{v:.{max(digits, 3)}g}" for v in numbers]
        if all(float(text) != neutral or v == neutral for text, v in zip(texts, numbers, strict=True)):
            break
    return f"{texts[0]} ({texts[1]} to {texts[2]})"


def format_conclusion(settings: ComparisonSettings, found: dict[str, Any]) -> str:
    """Return the conclusion about one setup, in which all numbers belong to the same test."""
    first, second = (f"{settings.prefix}{found[name]}" for name in ("leader", "rival"))
    n, unit, more = found["n_common"], settings.unit, settings.more
    significant, alpha, count = found["significant"], settings.alpha, found["count"]
    p = "p < 0.001" if found["p_value"] < 0.001 else f"p = {found['p_value']:.2g}"
    claim, level = settings.format_claim(first, second, count), f"{100.0 * (1.0 - alpha):.4g} %"
    if not significant and count == 2:
        claim = f"No significant difference in {settings.subject}."
    elif not significant:
        rivals = join_names([f"{settings.prefix}{name}" for name in found["open"]], 5)
        claim = f"No significant leader in {settings.subject}: {rivals} may be {more} than {first}."
    if settings.is_nearest_share:
        of_first, of_second = found["shares"]
        return f"{claim.rstrip('.')} ({first} {of_first:.3f}, {second} {of_second:.3f}, {p})."
    if found["withheld"]:
        return f"No test: {settings.format_claim(first, second, 2)} in the sample, but {found['withheld']}."
    claim += "" if significant or count == 2 else " Closest:"
    kind = {RATIO: "ratio", MARGIN: "margin of wins"}.get(settings.scale, "difference")
    amount = format_with_interval(found["effect"], found["effect_ci"], 1.0 if settings.scale == RATIO else 0.0)
    if settings.estimand != WIN:
        claim += "" if significant else f" {first} over {second}"
        return f"{claim}: {kind} {amount}, {p} ({level} interval, paired t-test, {n} {unit}s)."
    decided = found["wins"] + found["losses"]
    if not decided:
        return f"{first} and {second} are equal on all {n} {unit}s."
    ties = f", equal on {n - decided}" if n > decided else ""
    times = f"on {found['wins']} of {n} {unit}s{ties}"
    score = f"{first} is {more} than {second} {times}"
    if settings.prefix and settings.direction != NEAREST:
        score = f"{settings.format_claim(first, second, 2)} {times}"
    ends = found["probability_ci"].tolist()  # with enough digits to distinguish them from 1/2
    texts = [next((t for k in (2, 3, 5, 9) if float(t := f"{v:.{k}f}") != 0.5 or v == 0.5), repr(v)) for v in ends]
    chance = f"probability on a fresh {unit}{' that differs' if ties else ''} {' to '.join(texts)}"
    fewest = next(m for m in range(1, 1100) if 2.0 ** (1 - m) <= alpha)
    if decided < fewest:
        noun, verb = (unit, "differs") if decided == 1 else (f"{unit}s", "differ")
        units = f"{decided} {noun} that {verb}" if ties else f"{decided} {noun}"
        return f"{units}: too few for an interval. Use at least {fewest}. {score}."
    numbers = f"{level} intervals: {chance}; {'' if settings.scale == SHARE else 'median '}{kind} {amount}"
    if significant:
        every = f"; probability against each of the others at least {found['least']:.2f}" if count > 2 else ""
        plain = count == 2 and settings.direction != NEAREST  # the claim has the direction already
        return f"{claim}{' ' if plain else f': {more} '}{times} ({p}, sign test). {numbers}{every}."
    margin, ratio = settings.margin, settings.scale == RATIO
    low, high = (1.0 / (1.0 + margin), 1.0 + margin) if ratio else (-margin, margin)
    if margin and low < found["effect_ci"][0] and found["effect_ci"][1] < high:
        within = f"{100.0 * margin:g} %" if ratio else f"{margin:g}"
        claim = f"{first} and {second} are equal within {within}:"
        return f"{claim} {score} ({p}, sign test). {numbers}."
    # units at which the test would probably reject if the share of wins stays
    share = (found["wins"] + 1.0) / (decided + 2.0)
    count = ((0.98 + 0.84 * math.sqrt(share * (1.0 - share))) / max(abs(share - 0.5), 1e-9)) ** 2 * n / decided
    stays = n < count < 10_000 and found["wins"] > found["losses"]
    needed = f" About {math.ceil(count)} {unit}s would decide it if this share stays." if stays else ""
    return f"{claim} {score} ({p}, sign test). {numbers}.{needed}"
