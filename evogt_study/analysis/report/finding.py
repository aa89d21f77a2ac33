"""The finding of a study: which label is best, by how much, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from evogt_study.analysis.reduce import BOUND
from evogt_study.analysis.runs import shown
from evogt_study.analysis.verdict import PAIR
from evogt_study.inference.comparisons import pairs_of, winner
from evogt_study.plots import catalogue as kinds
from evogt_study.plots.comparison import Judged, contested, judged
from evogt_study.plots.groups import Places
from evogt_study.study.case_space import listed

MOST_CELLS = 12
"""Cells that have a sentence each; the picture of the verdict has more."""


@dataclass(frozen=True)
class Finding:
    """A sentence on the whole of a study, and one for each of its cells where there are several."""

    sentence: str
    cells: Sequence[str] = ()
    left_out: int = 0


def judgement(data: xr.Dataset) -> Judged | None:
    """The verdict on the axis of words by the mean error; None without either, or with too few seeds to judge."""
    variable = kinds.subject(data)
    if variable is None or "error" not in variable or not contested(data, variable, Places()):
        return None
    return judged(data, variable, Places())


def finding(made: Judged) -> Finding | None:
    """The best label of a verdict; None where no cell has enough common seeds."""
    found, by, cells = made
    rest = [str(dim) for dim in found["n_common"].dims]
    parts = [found.isel(dict(zip(rest, place, strict=True))) for place in np.ndindex(*found["n_common"].shape)]
    judged_cells = [(name, part, _best(part)) for name, part in zip(cells, parts, strict=True)]
    known = [(name, part, best) for name, part, best in judged_cells if best is not None]
    if not known:
        return None
    what = str(found.attrs["of"]).replace("_", " ")
    sentences = [f"{_upper(_describe_cell(part, by, best, what, name))}." for name, part, best in known]
    if len(known) == 1:
        return Finding(sentences[0])
    return Finding(_over_all(known, by, what), sentences[:MOST_CELLS], max(0, len(known) - MOST_CELLS))


def _best(cell: xr.Dataset) -> int | None:
    """The label with the best mean, None where the verdict has no interval for it."""
    first = winner(cell["value"].sel(statistic="mean").values, str(cell.attrs["better"]))
    return first if first >= 0 and bool(np.isfinite(cell["best_mean"].values[first])) else None


def _over_all(known: Sequence[tuple[str, xr.Dataset, int]], by: str, what: str) -> str:
    """Count the cells that each label wins, and those in which it is told apart from all others."""
    names = shown(known[0][1], by)
    wins = Counter(names[best] for _, _, best in known)
    (first, most), *others = wins.most_common()
    where = f"all {len(known)}" if most == len(known) else f"{most} of {len(known)}"
    beside = listed([f"{name} in {count}" for name, count in others], 12)
    settled = sum(bool(part["settled"]) for _, part, _ in known)
    return (
        f"The lowest mean {what} is that of {first} in {where} cells of the study"
        + (f" ({beside})" if beside else "")
        + f"; in {settled} of {len(known)} the best {by.replace('_', ' ')} is told apart from every other, at "
        f"{known[0][1].attrs['confidence']:.0%} for all pairs of a cell together."
    )


def _describe_cell(cell: xr.Dataset, by: str, first: int, what: str, where: str) -> str:
    """One cell: the best label, the next one with the ratio and its interval, the chance, and the runs."""
    names, means = shown(cell, by), cell["value"].sel(statistic="mean").values
    others = [i for i in range(len(names)) if i != first and not np.isnan(means[i])]
    second = min(others, key=lambda i: float(means[i])) if others else first
    # 999 resamples tell no probability nearer to zero or one
    chance = min(max(float(cell["best_mean"].values[first]), 0.001), 0.999)
    ok, planned = (int(cell[name].sum()) for name in ("n_ok", "n_planned"))
    parts = [
        f"the lowest mean {what} is that of {names[first]}{_ahead(cell, first, second, names)}",
        f"best on average with probability {chance:.3f}",
        f"on {int(cell['n_common'])} common seeds, from {ok:,}/{planned:,} runs",
    ]
    return (f"at {where}, " if where else "") + "; ".join(parts)


def _ahead(cell: xr.Dataset, first: int, second: int, names: Sequence[str]) -> str:
    """By how much the best is ahead of the next, with the interval of that."""
    if first == second:
        return ""
    pair = pairs_of(len(names)).index((min(first, second), max(first, second)))
    low, high = map(float, cell["effect_ci"].transpose(PAIR, BOUND).values[pair])
    effect, ratio = float(cell["effect"].values[pair]), cell.attrs["effect"] == "ratio"
    if first < second:  # the pair is best over next: the other way round
        effect, low, high = (1.0 / effect, 1.0 / high, 1.0 / low) if ratio else (-effect, -high, -low)
    apart = low > (1.0 if ratio else 0.0)
    said = f"{effect:.3g} times as large" if ratio else f"larger by {effect:.3g}"
    interval = f"{cell.attrs['confidence']:.0%} interval {low:.3g} to {high:.3g}, which holds for all pairs together"
    return (
        f"; that of {names[second]}, the next, is {said} ({interval}){'' if apart else ', so they are not told apart'}"
    )


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
