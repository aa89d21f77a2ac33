"""Several results on one page: what each asked, what came out, its first table and pictures."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from urllib.parse import quote

import xarray as xr

from evogt_study.analysis.completeness import completeness
from evogt_study.analysis.report.finding import Finding, finding, judgement
from evogt_study.analysis.report.page import Picture, StatedProblem, stated_problems, template
from evogt_study.analysis.report.report import Parameter, Part, Table, axes, part, tables
from evogt_study.plots.style import COLUMN_WIDTH

FEW_PICTURES = 3  # what every run gave, how that follows the parameters, and what the study is about
FEW_ROWS = 12
"""Rows of a table: those of a few labels and values; `evogt summary` prints all."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One result as the page tells of it.  file: its path from the page; others: phases beside the study, in words."""

    title: str
    file: str
    study: Part
    others: Mapping[str, str]
    finding: Finding | None
    problems: Sequence[StatedProblem]
    axes: Sequence[Parameter]
    table: Table | None

    @property
    def link(self) -> str:
        """Its path as an address."""
        return quote(self.file)

    @property
    def argument(self) -> str:
        """Its path as a word of a command."""
        return shlex.quote(self.file)

    def pictures_within(self, most_bytes: int) -> list[Picture]:
        """The first of its pictures, as many as fit."""
        sizes = (len(each.image + each.caption + each.alt) for each in self.study.pictures)
        fitting = zip(self.study.pictures, accumulate(sizes), strict=True)
        return [picture for picture, bytes_so_far in fitting if bytes_so_far <= most_bytes]


def entry(file: str, groups: Mapping[str, xr.Dataset]) -> Entry:
    """Tell of a result; groups: as `report` takes them."""
    data = groups["study"]
    judged = judgement(data)
    numbers = tables(data)[:1]
    return Entry(
        title=str(data.attrs.get("title") or file),
        file=file,
        study=part(data, numbers, judged, most=FEW_PICTURES),
        others={phase: completeness(each).told() for phase, each in groups.items() if phase != "study"},
        finding=finding(judged) if judged is not None else None,
        problems=stated_problems(str(data.attrs.get("study", ""))),
        axes=axes(data),
        table=_first_rows(numbers[0]) if numbers else None,
    )


def overview(title: str, entries: Sequence[Entry], most_bytes: int) -> str:
    """The page; each entry has the pictures that fit in its share of what a page without any leaves of `most_bytes`."""
    asked = [each.problems for each in entries]
    first = [asked.index(each) for each in asked]  # of those with the same problem, which states it
    page = template("overview.html.j2", title=title, entries=entries, first=first, column=COLUMN_WIDTH)
    share = (most_bytes - len(page.render(share=0).encode())) // len(entries)
    return page.render(share=share)


def _first_rows(its: Table) -> Table:
    rows = its.body[:FEW_ROWS]
    return replace(its, body=rows, left_out=its.left_out + len(its.body) - len(rows))
