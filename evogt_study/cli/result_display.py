"""A result for a person, as lines: counts by status, where runs are missing, what went wrong, whose software it was."""

from __future__ import annotations

from collections.abc import Iterator

import xarray as xr

from evogt_study.analysis.completeness import Completeness
from evogt_study.analysis.runs import KEYS, count_runs, run_numbers
from evogt_study.results.dataset import software_sets

MOST_MESSAGES = 10


def format_counts(found: Completeness) -> str:
    """ "240 runs, 238 ok, 2 failed"; "160 points, 64 runs, 64 ok" where some points are the same run."""
    points = "" if found.points == found.planned else f"{found.points} points, "
    return f"{points}{found.planned} runs, " + ", ".join(f"{count} {name}" for name, count in found.counts.items())


def format_missing(found: Completeness) -> Iterator[str]:
    """Runs that are not ok, and those that are not run, by the values of each axis, where there are any."""
    for axis in found.lacking:
        shown = [f"{value}: {bad}/{planned}" for value, bad, planned in axis.values]
        more = f" and {axis.more} more" if axis.more else ""
        yield f"  {axis.state} by {axis.axis}: " + ", ".join(shown) + more


def format_messages(found: Completeness) -> Iterator[str]:
    """Messages of runs that are not ok, most frequent first, each with one case that has it."""
    for message in found.messages[:MOST_MESSAGES]:
        at = ", ".join(f"{name}={value}" for name, value in message.at.items())
        yield f"  {message.count} x {message.text} (e.g. {at})"


def format_software(data: xr.Dataset) -> Iterator[str]:
    """The version sets that computed the runs, where there are several."""
    sets = software_sets(data)
    if len(sets) < 2:
        return
    runs, numbers = run_numbers(data[KEYS]), data["software"].values
    for number, entry in enumerate(sets):
        count = count_runs(runs[numbers == number])
        yield f"  {count} runs by " + ", ".join(f"{name} {version}" for name, version in sorted(entry.items()))
