"""Report pages of a deposit, which may not weigh much beside its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import xarray as xr

from evogt_study.analysis.report.overview import entry, overview
from evogt_study.analysis.report.report import report
from evogt_study.publishing.contents import Deposit, DepositedStudy
from evogt_study.results.netcdf import opened, with_numbers

LITTLE, PART = 1_000_000, 20
"""What a deposit adds to its results is less than so many bytes, or than one of so many parts of theirs."""
AROUND = 5_500
"""Bytes that a study adds beside its page, by the 22 of a deposit of the paper's; what they share is twice that."""
TOGETHER = "reports/overview.html"


def pages(made: Deposit, root: Path) -> dict[str, str]:
    """Texts of the pages by path; the results are in the folder `root` already.

    A page for each study, or one brief page of all where they would weigh too much.
    """
    results = sum((root / study.result).stat().st_size for study in made.studies)
    room = max(LITTLE, results // PART) - AROUND * (len(made.studies) + 2)
    if (fitting := _within(room, _each(made, root))) is not None:
        return fitting
    entries = []
    for study in made.studies:
        with _read(root / study.result) as groups:
            entries.append(entry(f"../{study.result}", groups))
    return {TOGETHER: overview(made.title, entries, room)}


def page_of(study: DepositedStudy) -> str:
    """Path of a page that is of one study alone."""
    return f"reports/{study.name}.html"


def _each(made: Deposit, root: Path) -> Iterator[tuple[str, str]]:
    for study in made.studies:
        with _read(root / study.result) as groups:
            yield page_of(study), report(root / study.result, groups)


def _within(room: int, texts: Iterator[tuple[str, str]]) -> dict[str, str] | None:
    """The texts if all together have at most `room` bytes; no more of them are made than it takes to know."""
    found: dict[str, str] = {}
    for path, text in texts:
        found[path] = text
        room -= len(text.encode())
        if room < 0:
            return None
    return found


@contextmanager
def _read(result: Path) -> Iterator[Mapping[str, xr.Dataset]]:
    with opened(result) as groups:
        yield {phase: with_numbers(data) for phase, data in groups.items()}
