"""What became of the runs of a result: counts by status, where they are missing, and what went wrong, by message."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from evogt_study.sweep.schema import Status
from evogt_study.sweep.values import canonical, text_label

MOST_MESSAGES = 20
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Message:
    """Messages that differ in their numbers alone: how many runs have one, an example, and where in the study it is."""

    text: str
    count: int
    where: str
    at: Mapping[str, str]


@dataclass(frozen=True)
class Lacking:
    """Runs of one axis that are not ok: (value, runs not ok, runs planned) for each value that has some."""

    axis: str
    values: Sequence[tuple[str, int, int]]


@dataclass(frozen=True)
class Completeness:
    """planned runs; counts by status, those with none left out; what lacks by axis; messages, most frequent first."""

    planned: int
    counts: Mapping[str, int]
    lacking: Sequence[Lacking]
    messages: Sequence[Message]

    @property
    def ok(self) -> int:
        """Runs with status ok."""
        return self.counts.get(Status.ok.name, 0)

    def told(self) -> str:
        """One sentence: "238 of 240 runs are ok; 1 failed, 1 diverged"."""
        rest = [f"{count:,} {name.replace('_', ' ')}" for name, count in self.counts.items() if name != Status.ok.name]
        if not rest:
            return f"All {self.planned:,} runs are ok" if self.planned > 1 else "The one run is ok"
        return f"{self.ok:,} of {self.planned:,} runs are ok; {', '.join(rest)}"


def completeness(data: xr.Dataset) -> Completeness:
    """What became of the planned runs of one phase of a result."""
    planned = data["case_key"].values != ""
    status = data["status"].values
    counts = {state.name: int(n) for state in Status if (n := np.count_nonzero(status[planned] == state))}
    return Completeness(int(planned.sum()), counts, _lacking(data, planned), _messages(data))


def _lacking(data: xr.Dataset, planned: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> list[Lacking]:
    wrong = planned & (data["status"].values != Status.ok)
    found = []
    for axis, name in enumerate(map(str, data["status"].dims)):
        others = tuple(i for i in range(wrong.ndim) if i != axis)
        bad, total = wrong.sum(axis=others), planned.sum(axis=others)
        labels = data[name].values
        values = [
            (text_label(canonical(labels[i])), int(bad[i]), int(total[i])) for i in np.flatnonzero(bad) if len(bad) > 1
        ]
        if values:
            found.append(Lacking(name, values))
    return found


def _messages(data: xr.Dataset) -> list[Message]:
    """Messages of runs that are not ok, those that differ in their numbers alone taken together."""
    texts = data["message"].values.ravel().astype(str)
    first: dict[str, int] = {}
    counts: dict[str, int] = {}
    for position in np.flatnonzero(texts != ""):
        pattern = _NUMBER.sub("#", texts[position])
        first.setdefault(pattern, int(position))
        counts[pattern] = counts.get(pattern, 0) + 1
    frequent = sorted(counts, key=lambda pattern: -counts[pattern])[:MOST_MESSAGES]
    return [_message(data, first[pattern], str(texts[first[pattern]]), counts[pattern]) for pattern in frequent]


def _message(data: xr.Dataset, position: int, text: str, count: int) -> Message:
    dims = list(map(str, data["message"].dims))
    places = np.unravel_index(position, data["message"].shape)
    at = {name: text_label(canonical(data[name].values[i])) for name, i in zip(dims, places, strict=True)}
    return Message(text, count, ", ".join(f"{name} = {value}" for name, value in at.items()), at)
