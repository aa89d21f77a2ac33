"""Compare the values of an axis: one estimand, one test, one interval and one sentence for each setup."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.analysis.design import Design
from evogt_study.analysis.reduce import BOUND, check_confidence, check_options, dimensions
from evogt_study.analysis.runs import (
    DRAWN,
    Layout,
    each_once,
    join_numbers,
    layout,
    mark_first,
    planned_runs,
    typed_labels,
)
from evogt_study.analysis.statistics import kept_coordinates
from evogt_study.errors import InputError, ParameterError
from evogt_study.inference import comparisons as tests
from evogt_study.inference import kernels
from evogt_study.inference.comparisons import DIFFERENCE, MARGIN, RATIO, SHARE, Pairs
from evogt_study.inference.intervals import share_interval
from evogt_study.inference.kernels import Array, Bools, is_two_valued
from evogt_study.schema.variables import GEOMETRIC_MEAN, HIGHER, MEAN, NEAREST, WIN, declared_attributes, parse_better
from evogt_study.study.case_space import listed

_LONG_NAMES = {
    "leader": "axis value ahead of all others", "rival": "axis value that is closest to the leader",
    "p_value": "p-value of the test that the leader is ahead of the rival",
    "significant": "the leader is significantly ahead of every other axis value",
    "n": "units that both have", "probability": "probability that the leader is ahead on a fresh unit that differs",
    "probability_ci": "confidence interval of probability (Clopper and Pearson)",
    "effect": "effect of the leader over the rival", "effect_ci": "confidence interval of effect",
    "conclusion": "result in one sentence", "note": "assumptions and doubts",
    "n_ok": "units with all their runs", "n_planned": "units planned", "failed": "share of runs without a value",
    "failed_ci": "confidence interval of failed (Wilson)", "over_leader": "effect over the leader",
    "over_leader_ci": "confidence interval of over_leader", "p_over_leader": "p-value of over_leader",
    "scale": "scale of effect",
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """The question: variable, estimand, direction with its target, scale of the effect, unit, and options."""

    variable: str
    estimand: str
    direction: str
    target: float
    scale: str
    two_valued: bool
    omit: bool
    alpha: float
    unit: str = "seed"
    margin: float = 0.0

    @property
    def sign(self) -> int:
        """1 if lower is ahead, else -1."""
        return -1 if self.direction == HIGHER else 1

    @property
    def is_nearest_share(self) -> bool:
        """Whether shares of ones are compared with a target."""
        return self.direction == NEAREST and self.two_valued and self.estimand == WIN

    @property
    def more(self) -> str:
        """The direction as a comparative: "lower", "higher", "nearer to 0.95"."""
        return f"nearer to {self.target:g}" if self.direction == NEAREST else self.direction or "lower"

    @property
    def subject(self) -> str:
        """The number that is compared: "error", "mean error"."""
        return self.variable if self.estimand == WIN else f"{self.estimand.replace('_', ' ')} {self.variable}"

    def claim(self, first: str, second: str, count: int) -> str:
        """The claim that the leader is ahead: "a has the lowest error of all 3; closest is b"."""
        if count == 2 and self.direction != NEAREST:
            return f"{first} has {'an' if self.more[0] in 'aeiou' else 'a'} {self.more} {self.subject} than {second}"
        of_all = f" of all {count}; closest is {second}" if count > 2 else ""
        if self.direction == NEAREST:
            return f"{first} has the {self.subject} nearest to {self.target:g}{of_all}"
        return f"{first} has the {self.more[:-2]}est {self.subject}{of_all}"


class Setup(NamedTuple):
    """Values of one setup (L, U, k), NaN without a value, and which runs are planned; units are dimension U."""

    values: Array
    planned: Bools

    @property
    def failed(self) -> Bools:
        """Planned runs without a value."""
        return np.array(self.planned & np.isnan(self.values), dtype=bool)


class Pair(NamedTuple):
    """Leader and rival of a setup with `n_values` values: wins and losses; rivals that may be ahead of the leader.

    least: lowest lower end of the probability against any value.  withheld: why no test is made, or "".
    """

    wins: int
    losses: int
    n_values: int
    rivals: Sequence[str]
    least: float
    withheld: str

    @property
    def n_decided(self) -> int:
        """Units that differ."""
        return self.wins + self.losses


def compare(
    values: xr.DataArray,
    dim: str,
    over: str | Iterable[str] = "seed",
    *,
    estimand: str = "",
    better: str = "",
    units: str | Iterable[str] | None = None,
    margin: float = 0.0,
    scale: str = "",
    failures: str = "loss",
    family: str = "setup",
    confidence: float = 0.95,
    planned: xr.DataArray | None = None,
) -> xr.Dataset:
    """Compare the values of the axis `dim` on common units, such as seeds.

    Parameters
    ----------
    values : DataArray
        Values of one variable, such as ``ds.error``.
    dim : str
        Axis whose values are compared.
    over : str or list of str, default "seed"
        Dimensions that are pooled.
    estimand : {"win", "geometric_mean", "mean"}, optional
        win: exact sign test.  geometric_mean, mean: Student's test.  Default: `[output.estimand]`, else win.
    better : str, optional
        "lower", "higher" or "nearest 0.95".  Default: `[output.better]`, else the lowest value leads.
    units : str or list of str, optional
        Dimensions in `over` whose points are independent, by default the seed.  The estimand win counts a unit with
        several runs for the value that wins more of them.
    margin : float, default 0
        Relative difference (of ratios) or difference up to which two values count as equal.
    scale : {"ratio", "difference"}, optional
        Default: ratio if all values are positive, else difference.
    failures : {"loss", "omit"}, default "loss"
        A failed run is worse than any value, or its unit is left out.
    family : {"setup", "all"}, default "setup"
        all: adjust the tests for the number of setups (Holm).
    confidence : float, default 0.95
        Confidence of the intervals.  The level of the tests is 1 - confidence.
    planned : DataArray, optional
        Run keys or booleans, as in `evs.summary`.

    Returns
    -------
    xarray.Dataset
        Over the other dimensions: leader, rival, p_value, significant, n, probability(_ci), effect(_ci), conclusion
        and note.  Along `dim`: n_ok, n_planned, failed(_ci), and over_leader(_ci) and p_over_leader.

    Raises
    ------
    InputError, ParameterError
        For an unknown dimension or option, and for a single value of `dim`.

    Examples
    --------
    >>> x = xr.DataArray([[1.0, 2, 3, 4, 5, 6], [3.0, 6, 9, 9, 10, 18]], dims=("m", "seed"), coords={"m": ["a", "b"]})
    >>> print(compare(x.rename("error"), "m").conclusion.item())  # doctest: +ELLIPSIS
    a has a lower error than b on 6 of 6 seeds (p = 0.031, sign test). 95 % intervals: ...
    """
    check_confidence(confidence)
    chosen = estimand, better, scale, failures
    return _compare(values, dim, over, chosen, units, margin, family, 1.0 - confidence, planned)


def _compare(
    values: xr.DataArray, dim: str, over: str | Iterable[str], chosen: tuple[str, str, str, str],
    units: str | Iterable[str] | None, margin: float, family: str, alpha: float, planned: xr.DataArray | None,
) -> xr.Dataset:  # fmt: skip
    """`compare` with its options; chosen: estimand, direction, scale and failures."""
    over_dims = paired_dimensions(values, dim, over)
    if values.sizes[dim] < 2:
        raise InputError(f"`dim` must have at least two values, {dim} has {values.sizes[dim]}")
    check_options(failures=(chosen[3], ("loss", "omit")), family=(family, ("setup", "all")))
    design, runs = Design.of(values, planned=planned), planned_runs(values, planned)
    laid_out = layout(values, over_dims, units, runs, along=[dim])
    setups, rest = _setups(values, dim, laid_out, runs)
    named = each_once(units) if units is not None else [DRAWN] if DRAWN in over_dims else over_dims
    unit = named[0] if len(named) == 1 else "unit"
    question = _question(values, *chosen, alpha, laid_out.within > 1)
    question, names = replace(question, unit=unit, margin=margin), typed_labels(values, dim)
    found = [_compare_setup(each, names, question) for each in setups]
    p = np.array([each["p_value"] for each in found])
    several = int((~np.isnan(p)).sum())
    more = [f'p-values are not adjusted for the {several} setups (family="all")'] if several > 1 else []
    if family == "all":
        levels, p = tests.holm_levels(p, alpha), tests.holm(p)
        more = [f"tests are adjusted for {several} setups together (Holm)"]
        found = [
            _compare_setup(each, names, replace(question, alpha=float(level)))
            for each, level in zip(setups, levels, strict=True)
        ]
    for each, adjusted in zip(found, p, strict=True):
        each["p_value"] = adjusted
        each["note"] = design.note(*each["note"], *more, streams=False)
    return _dataset(values, dim, over_dims, rest, found, question)


def _setups(
    values: xr.DataArray, dim: str, laid_out: Layout, runs: xr.DataArray | None
) -> tuple[list[Setup], list[str]]:
    """The setups of values, each run of a value of `dim` once, and the dimensions that are left."""
    rest = [str(each) for each in values.dims if each not in (dim, *laid_out.dims)]
    order = (*rest, dim, *laid_out.dims)
    table = values.transpose(*order).values.astype(float)
    shape = (-1, values.sizes[dim], laid_out.count * laid_out.within)
    numbers = np.arange(table.size).reshape(table.shape)
    if runs is not None:
        numbers = runs.broadcast_like(values.reset_coords(drop=True)).transpose(*order).values
        for each in (each for each in laid_out.dims if each not in runs.dims):  # such as time: each point once
            places = np.arange(values.sizes[each]).reshape([-1 if name == each else 1 for name in order])
            numbers = np.where(numbers < 0, -1, numbers * values.sizes[each] + places)
    found = []
    for cells, own in zip(table.reshape(shape), numbers.reshape(shape), strict=True):
        planned = own >= 0
        kept = planned & mark_first(join_numbers(np.where(planned, own, own.max(initial=0) + 1)))
        found.append(Setup(laid_out.blocks(np.where(kept, cells, np.nan)), laid_out.blocks(kept)))
    return found, rest


def _question(
    values: xr.DataArray, estimand: str, better: str, scale: str, failures: str, alpha: float, pooled: bool
) -> Question:
    """The estimand, direction and scale, from the options, the attributes of the variable and its values."""
    declared, stated = declared_attributes(values), estimand
    estimand = estimand or declared[1] or WIN
    check_options(estimand=(estimand, tests._ESTIMANDS), scale=(scale, ("", RATIO, DIFFERENCE)))
    direction, target = parse_better(better or declared[0])
    numbers = np.ravel(values.values).astype(float)
    two_valued, known = is_two_valued(numbers), numbers[~np.isnan(numbers)]
    known = np.abs(known - target) if direction == NEAREST else known
    positive = bool(known.size) and bool((known > 0.0).all())
    if estimand == GEOMETRIC_MEAN and not positive and known.size:
        if stated:
            raise ParameterError("estimand", "win or mean for values that are not positive", estimand)
        estimand = WIN  # a declaration is of all studies of a method
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
    return Question(name, estimand, direction, target, scale, two_valued, failures == "omit", alpha)


def _compare_setup(setup: Setup, names: Sequence[str], question: Question) -> dict[str, Any]:
    """The numbers of one setup by name; `note` is a list."""
    count = len(names)
    found: dict[str, Any] = {
        "leader": "", "rival": "", "p_value": np.nan, "significant": False, "n": 0, "probability": np.nan,
        "probability_ci": np.full(2, np.nan), "effect": np.nan, "effect_ci": np.full(2, np.nan), "conclusion": "",
        "note": [], **_counts(setup), "over_leader": np.full(count, np.nan), "scale": question.scale,
        "over_leader_ci": np.full((count, 2), np.nan), "p_over_leader": np.full(count, np.nan),
    }  # fmt: skip
    part = np.flatnonzero(setup.planned.any(axis=(1, 2)))
    if len(part) < 2 or np.isnan(setup.values).all():
        return found | {"conclusion": "Fewer than two values have runs." if len(part) < 2 else "No run has a value."}
    message = _describe_failures(setup, part, names, question)
    if question.omit:
        setup = setup._replace(planned=setup.planned & ~np.asarray(setup.failed[part].any(axis=(0, 2)))[:, None])
    values = np.abs(setup.values - question.target) if question.direction == NEAREST else setup.values
    margins = tests.unit_margins(np.where(np.isnan(values), np.inf, question.sign * values), setup.planned)
    units, pairs = _test_pairs(values, setup, margins, names, question)
    lead, rivals = tests.find_leader(pairs, question.alpha, part)
    if question.is_nearest_share:
        margins = tests.unit_margins(setup.values, setup.planned & ~setup.failed)
        lead, rivals, p = _nearest_share(setup.values, part, question.target)
        pairs.p[lead, rivals] = p
    _add_effects(found, units, margins, pairs, lead, rivals, question)
    rival, first = rivals[0], names[lead]
    withheld, wins = pairs.reason.get((lead, rival), ""), pairs.wins[lead]
    found["significant"] = not withheld and bool(pairs.p[lead, rival] <= question.alpha)
    found |= {"leader": first, "rival": names[rival], "n": int(pairs.n[lead, rival])}
    found["p_value"] = found["p_over_leader"][rival]
    ends = [tests.win_interval(int(wins[j]), int(wins[j] + pairs.losses[lead, j]), question.alpha) for j in rivals]
    still = [names[j] for j in rivals if pairs.p[lead, j] > question.alpha]
    least = min(low for low, _ in ends)
    pair = Pair(int(wins[rival]), int(pairs.losses[lead, rival]), len(part), still, least, withheld)
    if question.estimand == WIN and pair.n_decided:
        found["probability"], found["probability_ci"] = pair.wins / pair.n_decided, np.array(ends[0])
    each = np.nan_to_num(kernels.mean(setup.values[[lead, rival]].reshape(2, -1)), nan=0.0).tolist()
    conclusion = conclude(replace(question, scale=found["scale"]), found, pair, each if question.two_valued else None)
    found["conclusion"] = conclusion + message
    means = units[[lead, rival]].mean(axis=-1)
    if question.estimand == WIN and found["scale"] == RATIO and question.sign * (means[0] - means[1]) > 0.0:
        order = f"{first} {means[0]:.3g}, {names[rival]} {means[1]:.3g}"
        found["note"] += [f"the sample means have the other order ({order}), because a few values dominate them"]
    return found


def _add_effects(
    found: dict[str, Any], units: Array, margins: Array, pairs: Pairs, lead: int, rivals: Sequence[int],
    question: Question,
) -> None:  # fmt: skip
    """Add the effect of each value over the leader, its interval and p-value, and the effect of the leader."""
    scale, of, alpha = question.scale, question.estimand, question.alpha
    tested = [j for j in rivals if (lead, j) not in pairs.reason]
    pairs_of_means = [(i, k) for j in tested for i, k in ((lead, j), (j, lead))] if (of, scale) == (MEAN, RATIO) else []
    if any(tests.effect_of_means(units[i], units[k], of, scale, alpha) is None for i, k in pairs_of_means):
        scale = found["scale"] = DIFFERENCE
        found["note"] += ["a mean is not clearly positive, so effects are differences"]
    worst = -np.inf if question.sign < 0 else np.inf
    for j in rivals if of == WIN else tested:
        found["p_over_leader"][j] = pairs.p[lead, j]
        if of == WIN:
            effect = tests.effect_of_wins(units[j], units[lead], margins[j, lead], scale, alpha, worst)
        else:
            effect = tests.effect_of_means(units[j], units[lead], of, scale, alpha) or (np.nan, (np.nan, np.nan))
        found["over_leader"][j], found["over_leader_ci"][j] = effect
    found["over_leader"][lead] = 1.0 if scale == RATIO else 0.0
    effect, ends = found["over_leader"][rivals[0]], found["over_leader_ci"][rivals[0]][::-1]
    with np.errstate(divide="ignore"):
        found["effect"], found["effect_ci"] = (1.0 / effect, 1.0 / ends) if scale == RATIO else (-effect, -ends)


def _test_pairs(
    values: Array, setup: Setup, margins: Array, names: Sequence[str], question: Question
) -> tuple[Array, Pairs]:
    """Numbers of the units (L, U), on logarithms for a geometric mean, and the tests of all pairs."""
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.log(values) if question.estimand == GEOMETRIC_MEAN else values
    counts = setup.planned.sum(axis=-1)
    sums = np.where(setup.planned, each, 0.0).sum(axis=-1)  # NaN if a run of the unit failed
    units = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    if question.estimand == WIN:
        return units, tests.compare_wins(margins)
    failed = np.asarray(setup.failed.any(axis=(1, 2)))
    return units, tests.compare_means(units, question.sign, question.estimand, failed, tuple(names), question.unit)


def _nearest_share(values: Array, part: npt.NDArray[np.intp], target: float) -> tuple[int, list[int], Array]:
    """The share that is nearest to a target, its rivals, the closest first, and their p-values.

    |p - t| < |q - t| is (p - q)(p + q - 2t) < 0.  McNemar's test decides the sign of the first factor, and the interval
    of the mean of both shares decides the second.  Both have to reject.
    """
    shares = np.array([np.nanmean(each) if (~np.isnan(each)).any() else np.inf for each in values])
    lead = int(part[np.abs(shares[part] - target).argmin()])
    found = {}
    for j in (int(each) for each in part if each != lead):
        both = values[[lead, j]]
        both = both[:, ~np.isnan(both).any(axis=(0, 2))]
        apart = both[0].mean(axis=-1) - both[1].mean(axis=-1)
        up, down = int((apart > 0).sum()), int((apart < 0).sum())
        p = float(tests.sign_p(up, down)) if both.size and (up > down) == (both.mean() < target) else 1.0
        low, high = 0.0, 1.0  # the level at which the interval begins to hold the target
        for _ in range(30 if both.size else 0):
            middle = max((low + high) / 2.0, 1e-9)
            ends = share_interval(both.transpose(1, 0, 2).reshape(both.shape[1], -1), 1.0 - middle)
            low, high = (low, middle) if not ends[0] <= target <= ends[1] else (middle, high)
        found[j] = max(p, high)
    rivals = sorted(found, key=lambda j: -found[j])
    return lead, rivals, np.array([found[j] for j in rivals])


def _describe_failures(setup: Setup, part: npt.NDArray[np.intp], names: Sequence[str], question: Question) -> str:
    """The failed runs and how they count, as a sentence; "" without any."""
    lost = [f"{names[i]} {bad} of {setup.planned[i].sum()}" for i in part if (bad := int(setup.failed[i].sum()))]
    losses = question.estimand == WIN and not question.is_nearest_share and not question.omit
    how = "counted as losses" if losses else "left out as if they failed at random"
    return f" Failed runs, {how}: {', '.join(lost)}." if lost else ""


def _counts(setup: Setup) -> dict[str, Any]:
    """Units with all their runs, units planned, and the share of runs that failed with its interval, by axis value."""
    planned, failed = setup.planned, setup.failed
    units = np.asarray(planned.any(axis=-1))
    share = failed.sum(axis=(1, 2)) / np.maximum(planned.sum(axis=(1, 2)), 1)
    ends = [share_interval(each, 0.95) for each in np.where(planned, failed, np.nan)]
    there = np.asarray(units.any(axis=-1))
    return {
        "n_ok": (units & ~failed.any(axis=-1)).sum(axis=-1), "n_planned": units.sum(axis=-1),
        "failed": np.where(there, share, np.nan), "failed_ci": np.where(there[:, None], ends, np.nan),
    }  # fmt: skip


def _dataset(
    values: xr.DataArray, dim: str, over: Sequence[str], rest: Sequence[str], found: Sequence[dict[str, Any]],
    question: Question,
) -> xr.Dataset:  # fmt: skip
    """The numbers of all setups with their coordinates and long names."""
    shape, data = [values.sizes[each] for each in rest], {}
    for name, long_name in _LONG_NAMES.items():
        own = [dim] if np.ndim(found[0][name]) and name not in ("effect_ci", "probability_ci") else []
        own += [BOUND] if name.endswith("_ci") else []
        column = np.array([each[name] for each in found], dtype=object if isinstance(found[0][name], str) else None)
        data[name] = ((*rest, *own), column.reshape((*shape, *column.shape[1:])), {"long_name": long_name})
    data["effect"][2]["units"] = "1" if question.scale != DIFFERENCE else str(values.attrs.get("units", "1"))
    made = xr.Dataset(data).assign_coords(kept_coordinates(values, over) | {BOUND: ["lower", "upper"]})
    better = f"{NEAREST} {question.target:g}" if question.direction == NEAREST else question.direction
    return made.assign_attrs(
        dim=dim, over=" ".join(over), of=str(values.name), estimand=question.estimand, better=better,
        scale=question.scale, unit=question.unit, confidence=1.0 - question.alpha,
    )  # fmt: skip


def paired_dimensions(values: xr.DataArray, dim: str, over: str | Iterable[str]) -> list[str]:
    """The dimensions `over`, beside which there is `dim`.  Raises InputError if there is not."""
    over_dims = dimensions(values, over)
    others = [str(name) for name in values.dims if name not in over_dims]
    if dim not in others:
        raise InputError(f"`dim` must be one of {', '.join(others) or 'none, since `over` names all'}, got {dim!r}")
    return over_dims


def round_ends(value: float, ends: Sequence[float], neutral: float) -> str:
    """A number and its ends, with enough digits to show on which side of the neutral value each end is."""
    texts = [""]
    for digits in (2, 3, 4, 6, 9):
        texts = [
            f"{v:#.{digits}g}".rstrip(".") if 1e-4 < abs(v) < 100 else f"{v:.{max(digits, 3)}g}" for v in (value, *ends)
        ]
        if all(float(text) != neutral or v == neutral for text, v in zip(texts, (value, *ends), strict=True)):
            break
    return f"{texts[0]} ({texts[1]} to {texts[2]})"


def round_share(ends: Sequence[float]) -> str:
    """The ends of a probability, with enough digits to differ from 1/2 if they do."""
    texts = [[text for k in (2, 3, 5, 9) if float(text := f"{v:.{k}f}") != 0.5 or v == 0.5] for v in ends]
    return " to ".join((each or [f"{v!r}"])[0] for each, v in zip(texts, ends, strict=True))


def conclude(question: Question, found: Mapping[str, Any], pair: Pair, shares: Sequence[float] | None) -> str:
    """The result of one setup as one sentence, in which all numbers belong to the same test."""
    first, second, n, unit, more = found["leader"], found["rival"], found["n"], question.unit, question.more
    significant, alpha = found["significant"], question.alpha
    level, p = f"{100.0 * (1.0 - alpha):.4g} %", f"p = {found['p_value']:.2g}"
    p = "p < 0.001" if found["p_value"] < 0.001 else p
    claim = question.claim(first, second, pair.n_values)
    if not significant and pair.n_values == 2:
        claim = f"No significant difference in {question.subject}."
    elif not significant:
        named = listed(list(pair.rivals), 5)
        claim = f"No significant leader in {question.subject}: {named} may be {more} than {first}. Closest:"
    if question.is_nearest_share and shares is not None:
        claim = claim.removesuffix(" Closest:").rstrip(".")
        return f"{claim} ({first} {shares[0]:.3f}, {second} {shares[1]:.3f}, {p})."
    if pair.withheld:
        return f"No test: {question.claim(first, second, 2)} in the sample, but {pair.withheld}."
    kind = {RATIO: "ratio", MARGIN: "margin of wins"}.get(question.scale, "difference")
    amount = round_ends(found["effect"], found["effect_ci"], 1.0 if question.scale == RATIO else 0.0)
    if question.estimand != WIN:
        claim += "" if significant else f" {first} over {second}"
        return f"{claim}: {kind} {amount}, {p} ({level} interval, paired t-test, {n} {unit}s)."
    if not pair.n_decided:
        return f"{first} and {second} are equal on all {n} {unit}s."
    ties = f", equal on {n - pair.n_decided}" if n > pair.n_decided else ""
    times = f"on {pair.wins} of {n} {unit}s{ties}"
    score = f"{more} than {second} {times}"
    chance = f"probability on a fresh {unit}{' that differs' if ties else ''} {round_share(found['probability_ci'])}"
    fewest = next(m for m in range(1, 1100) if 2.0 ** (1 - m) <= alpha)
    if pair.n_decided < fewest:
        reach = f"{pair.n_decided} {unit}s that differ give p = {2.0 ** (1 - pair.n_decided):.2g} at least"
        few = f"Too few {unit}s: {first} is {score}; {chance} ({level} interval)"
        return f"{few}; {reach}, {fewest} are needed for {alpha:.2g}."
    numbers = f"{level} intervals: {chance}; {'' if question.scale == SHARE else 'median '}{kind} {amount}"
    if significant:
        every = f"; probability against each of the others at least {pair.least:.2f}" if pair.n_values > 2 else ""
        plain = pair.n_values == 2 and question.direction != NEAREST  # the claim has the direction already
        return f"{claim}{' ' if plain else f': {more} '}{times} ({p}, sign test). {numbers}{every}."
    margin, ratio = question.margin, question.scale == RATIO
    low, high = (1.0 / (1.0 + margin), 1.0 + margin) if ratio else (-margin, margin)
    if margin and low < found["effect_ci"][0] and found["effect_ci"][1] < high:
        within = f"{100.0 * margin:g} %" if ratio else f"{margin:g}"
        claim = f"{first} and {second} are equal within {within}:"
        return f"{claim} {first} is {score} ({p}, sign test). {numbers}."
    return f"{claim} {first} is {score} ({p}, sign test). {numbers}.{_describe_needed(pair, n, unit)}"


def _describe_needed(pair: Pair, n: int, unit: str) -> str:
    """Number of units at which the test would probably reject if the share of wins stays, as a sentence."""
    share = (pair.wins + 1.0) / (pair.n_decided + 2.0)
    units = ((0.98 + 0.84 * math.sqrt(share * (1.0 - share))) / max(abs(share - 0.5), 1e-9)) ** 2 * n / pair.n_decided
    stays = n < units < 10_000 and pair.wins > pair.losses
    return f" About {math.ceil(units)} {unit}s would decide it if this share stays." if stays else ""
