"""Count the runs of a result by status, find where runs are missing, and group the messages of runs that are not ok."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.analysis.runs import KEYS, Numbers, mark_first, mark_first_cells, run_numbers
from evogt_study.schema.status import Completeness, Lacking, Message, Status
from evogt_study.schema.values import canonical, text_label
from evogt_study.schema.variables import status_codes
from evogt_study.storage.arrays import slabs

MOST_MESSAGES, _MOST_VALUES = 20, 12  # messages, and axis values to name among those with runs that are not ok
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?")


def completeness(data: xr.Dataset) -> Completeness:
    """Count the planned runs of one phase of a result.  One slab of the messages is in memory at a time."""
    runs, status, dims = run_numbers(data[KEYS]), status_codes(data["run_status"]), list(map(str, data[KEYS].dims))
    once = mark_first_cells(runs)
    states = np.bincount(status[once].astype(np.int64), minlength=len(Status))
    patterns, first = Counter[str](), dict[str, tuple[list[int], str]]()
    for slab in slabs(status.shape):
        texts = data["run_message"].isel(dict(zip(dims, slab, strict=True))).values.astype(object)
        for place in np.argwhere((texts != "") & once[slab]):
            text = str(texts[tuple(place)])
            pattern = _NUMBER.sub("#", text)
            patterns[pattern] += 1
            first.setdefault(pattern, ([int(i) + own.start for i, own in zip(place, slab, strict=True)], text))
    messages = []
    for pattern, count in patterns.most_common(MOST_MESSAGES):
        places, text = first[pattern]
        at = {name: text_label(canonical(data[name].values[i])) for name, i in zip(dims, places, strict=True)}
        messages.append(Message(text, count, ", ".join(f"{name} = {value}" for name, value in at.items()), at))
    counts, left = {state.name: int(states[state]) for state in Status if states[state]}, status == Status.not_run
    lacking = _lacking(data, runs, (status != Status.ok) & ~left, "not ok") + _lacking(data, runs, left, "not run")
    return Completeness(int(np.count_nonzero(runs >= 0)), int(states.sum()), counts, lacking, messages)


def _lacking(data: xr.Dataset, runs: Numbers, wrong: npt.NDArray[np.bool_], state: str) -> list[Lacking]:
    """Count the runs that are `wrong` by each axis of several values; `runs` has their numbers over the axes."""
    lacking = []
    for axis, name in enumerate(map(str, data["run_status"].dims)) if (wrong & (runs >= 0)).any() else ():
        labels = data[name].values
        once = mark_first(np.moveaxis(runs, axis, 0).reshape(len(labels), -1))
        bad, total = (once & np.moveaxis(wrong, axis, 0).reshape(once.shape)).sum(axis=1), once.sum(axis=1)
        places = np.flatnonzero(bad)
        values = [(text_label(canonical(labels[i])), int(bad[i]), int(total[i])) for i in places[:_MOST_VALUES]]
        if values and len(bad) > 1:  # an axis of one value does not show where
            lacking.append(Lacking(state, name, values, len(places) - len(values)))
    return lacking
