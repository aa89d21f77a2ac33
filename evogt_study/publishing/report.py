"""Write the page of one result, or of several results, to share.

The page of a result has its question, finding, numbers, figures, failures, provenance and commands.  It needs no other
file, loads nothing and runs nothing.  All text of the result is escaped.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path, PurePath
from urllib.parse import quote

import numpy as np
import xarray as xr

from evogt_study.analysis.design import design_of, drawn_dimensions
from evogt_study.analysis.statistics import summary
from evogt_study.analysis.status_counts import Completeness, completeness
from evogt_study.analysis.summary_table import describe_pilot
from evogt_study.analysis.tables import NumberFormat, make_table
from evogt_study.plots import catalogue as kinds
from evogt_study.plots.comparison import Compared, comparable, compared
from evogt_study.plots.groups import Places
from evogt_study.plots.style import COLUMN_WIDTH, svg
from evogt_study.publishing.page import PROVENANCE, Picture, StatedProblem, data_uri, stated_problems, template
from evogt_study.results.dataset import DECLARATION
from evogt_study.results.run_metadata import recorded, software_sets
from evogt_study.schema.values import canonical, text_label
from evogt_study.schema.variables import BOOKKEEPING, MAIN, Status, doubts, status_codes
from evogt_study.study.case_space import listed

MAX_SETUPS = 12
"""Setups that have a sentence each.  The figure of the comparison has more."""
_PATH = re.compile(r"\S*[/\\](\S+)")
MOST_ROWS = 60
MOST_TABLES = 12
MOST_PICTURES = 12
FEW_POINTS = 12
"""Number of points of a sample that the page shows."""
LONG = 200  # largest number of characters of a value
DPI = 144.0
"""Pixels per inch of images inside figures, which have print size.  A page shows them up to twice as large."""
FEW_PICTURES = 3  # of each result on a page of several
FEW_ROWS = 12
"""Rows of a table of the page of several results.  `evogt summary` prints all."""


@dataclass(frozen=True)
class Finding:
    """A sentence on the whole study, and one for each of its setups if there are several."""

    sentence: str
    setups: Sequence[str] = ()
    left_out: int = 0


@dataclass(frozen=True)
class Table:
    """A table of the page: the first `heads` columns name the row; left_out rows are not shown."""

    title: str
    header: Sequence[str]
    body: Sequence[Sequence[str]]
    heads: int
    left_out: int = 0


@dataclass(frozen=True, eq=False)
class Part:
    """One phase of a result.  The pilot has figures and no tables.

    lacking: a sentence on what the result does not have; headline: True if the first table has the main number.
    """

    runs: Completeness
    doubts: Sequence[str]
    tables: Sequence[Table]
    pictures: Sequence[Picture]
    lacking: str
    headline: bool


@dataclass(frozen=True)
class Parameter:
    """A parameter as the page lists it."""

    name: str
    long_name: str
    values: str
    count: int


def report(path: Path, groups: Mapping[str, xr.Dataset], state: str = "") -> str:
    """The page of a result that was read from `path`, by phase as `evogt_study.results.netcdf.read_result` gives it.

    state: of its computation, while it is running.  The page shows it, and a browser reloads the page every minute.
    """
    study = groups.get(MAIN)
    main = study if study is not None else next(iter(groups.values()))
    attributes = {str(name): str(value) for name, value in main.attrs.items()}
    numbers = tables(main) if study is not None else []
    if state:
        numbers += progress_by_cell(main)
    unshown = numbers_of(main)[MOST_TABLES:] if study is not None else []
    made = comparison_of(main) if study is not None else None
    parts = {phase: part(data, *((numbers, made) if data is main else ([], None))) for phase, data in groups.items()}
    page = template("report.html.j2").render(
        title=attributes.get("title") or path.stem,
        state=state,
        summary=attributes.get("summary", ""),
        source=attributes.get("source", ""),
        finding=finding(made) if made is not None else None,
        problems=stated_problems(attributes.get("study", "")),
        axes=axes(main),
        product=_product(main, parts[MAIN if study is not None else next(iter(parts))].runs),
        constants=constants(main),
        study_text=attributes.get("study", ""),
        study_file=_base(attributes.get("study_file", "")),
        study=parts.get(MAIN),
        unshown=unshown,
        shows=f"evogt summary {shlex.quote(path.name)} --variable NAME{'' if 'seed' in main.dims else ' --over none'}",
        pilot=parts.get("pilot"),
        distance=describe_pilot(groups["pilot"]) if "pilot" in groups else "",
        following=following(main),
        provenance=provenance(path, main),
        commands=commands(path, main, parts.get(MAIN)),
        column=COLUMN_WIDTH,
        own_code=".py:" in attributes.get("study", ""),
        version=attributes.get("product_version", "unknown"),
        revision=attributes.get("git_revision", "unknown"),
    )
    return page.lstrip()


def part(data: xr.Dataset, numbers: Sequence[Table], made: Compared | None, most: int = MOST_PICTURES) -> Part:
    """Completeness, doubts and pictures of one phase, beside its tables."""
    lacking = f"{kinds.NO_SOLUTION_ERROR.capitalize()}." if kinds.lacks_error(data) else ""
    pictures = [
        picture(kinds.drawn(data, choice.kind, kinds.Wish(choice.variable, compared=made)))
        for choice in kinds.fitting(data)[:most]
    ]
    headline = kinds.subject(data) is not None
    return Part(completeness(data), list(doubts(data)), numbers, pictures, lacking, headline)


def picture(each: kinds.Drawn) -> Picture:
    """A drawn figure as the page shows it."""
    width, height = each.figure.get_size_inches()
    return Picture(each.title, each.caption, each.alt, data_uri(svg(each.figure, DPI)), (width, height))


def comparison_of(data: xr.Dataset) -> Compared | None:
    """The comparison of the main number by the axis of strings; None without either, or with too few seeds."""
    variable = kinds.subject(data)
    if variable is None or not comparable(data, variable, Places()):
        return None
    return compared(data, variable, Places())


def finding(made: Compared) -> Finding | None:
    """The conclusions of a comparison; None if no setup has a leader."""
    leaders, conclusions = (made.found[name].values.ravel().tolist() for name in ("leader", "conclusion"))
    known = [i for i, leader in enumerate(leaders) if leader]
    if not known:
        return None
    sentences = [f"At {made.setups[i]}: {conclusions[i]}" if made.setups[i] else conclusions[i] for i in known]
    if len(known) == 1:
        return Finding(sentences[0])
    return Finding(_over_all(made, known), sentences[:MAX_SETUPS], max(0, len(known) - MAX_SETUPS))


def _over_all(made: Compared, known: Sequence[int]) -> str:
    """Count the setups that each value leads, and the setups in which its lead is significant."""
    leaders, significant = (made.found[name].values.ravel() for name in ("leader", "significant"))
    leads = Counter(str(leaders[i]) for i in known if significant[i])
    what, by = (str(text).replace("_", " ") for text in (made.found.attrs["of"], made.by))
    counts = listed([f"{name} in {count}" for name, count in leads.most_common()], 12)
    better = str(made.found.attrs["better"]) or "lower"
    most = {"lower": "the lowest", "higher": "the highest"}.get(better, better)
    note = next((each for each in str(made.found["note"].values.ravel()[0]).split("; ") if "adjusted" in each), "")
    message = f"In {sum(leads.values())} of {len(known)} setups one {by} has {most} {what} of all significantly"
    level = f"{100.0 * made.found.attrs['confidence']:g} % confidence in each setup"
    return f"{message}{f' ({counts})' if counts else ''}, at {level}.{f' The {note}.' if note else ''}"


def tables(data: xr.Dataset) -> list[Table]:
    """Statistics of each number of the runs over the seeds, of the first `MOST_TABLES`.

    Without seeds, one table of the numbers themselves.
    """
    ordered = numbers_of(data)[:MOST_TABLES]
    if not ordered:
        return []
    if "seed" not in data["run_status"].dims or data.sizes["seed"] == 1:
        return [plain_table(data, ordered)]
    return [summary_table(data[name], data["run_key"]) for name in ordered]


def numbers_of(data: xr.Dataset) -> list[str]:
    """The numbers of the runs by name; what the study is about comes first."""
    first = kinds.subject(data)
    return sorted(kinds.numbers(data), key=lambda name: name != first)


def summary_table(values: xr.DataArray, keys: xr.DataArray, over: str = "seed") -> Table:
    """Mean, standard deviation, median, interval and n over one axis, at the first `MOST_ROWS` points of the others."""
    dims = [str(dim) for dim in values.dims if dim != over]
    sizes = [values.sizes[dim] for dim in dims]
    flat, runs = (each.transpose(*dims, over).values.reshape(-1, each.sizes[over]) for each in (values, keys))
    groups = np.flatnonzero((runs != "").any(axis=1))
    shown = groups[:MOST_ROWS]  # first, so that statistics are of these alone
    array = xr.DataArray(flat[shown], {"group": shown}, ("group", over), name=values.name, attrs=values.attrs)
    planned = xr.DataArray(runs[shown], dims=array.dims)
    # without a warning: the page has n beside each number, and the missing runs above the tables
    header, body = make_table(summary(array, over, planned=planned, missing="drop")).flatten(NumberFormat())
    labelled = [[*_labels(values, dims, sizes, int(row[0])), *row[1:]] for row in body]  # which begin with the group
    title = _title_of(values) + f", over {over}"
    return Table(title, [*dims, *header[1:]], labelled, len(dims), len(groups) - len(shown))


def progress_by_cell(data: xr.Dataset) -> list[Table]:
    """Finished and failed runs of each cell, seeds being of one, and their seconds; the slowest cell first."""
    dims = [str(dim) for dim in data["run_status"].dims if dim != "seed"]
    planned, status = data["run_key"] != "", data["run_status"].copy(data=status_codes(data["run_status"]))
    if not dims or not bool(planned.any()):
        return []
    over = [dim for dim in status.dims if dim not in dims]
    seconds = data["run_seconds"].where(data["run_seconds"] > 0.0)
    finished = planned & (status != Status.not_run)
    of, done, failed, mean, largest = (
        each.transpose(*dims).values.ravel()
        for each in (planned.sum(over), finished.sum(over), (finished & (status != Status.ok)).sum(over),
                     seconds.mean(over), seconds.max(over))
    )  # fmt: skip
    known = np.flatnonzero(of)
    slow = known[np.argsort(-np.nan_to_num(mean[known], nan=-1.0), kind="stable")][:MOST_ROWS]
    sizes = [data.sizes[dim] for dim in dims]
    body = [
        [*_labels(data, dims, sizes, int(i)), f"{done[i]:,}/{of[i]:,}", f"{failed[i]:,}",
         *(f"{each[i]:.3g}" if np.isfinite(each[i]) else "–" for each in (mean, largest))]
        for i in slow
    ]  # fmt: skip
    header = [*dims, "finished", "not ok", "mean seconds", "largest"]
    return [Table("Progress by cell, where runs take longest first", header, body, len(dims), len(known) - len(slow))]


def plain_table(data: xr.Dataset, names: Sequence[str]) -> Table:
    """The numbers of the first `MOST_ROWS` runs that are planned, one row for each."""
    dims = list(map(str, data["run_status"].dims))
    sizes = [data.sizes[dim] for dim in dims]
    planned = np.flatnonzero(data["run_key"].values.ravel() != "")
    columns = [np.broadcast_to(data[name].transpose(*dims).values, sizes).ravel() for name in names]
    body = [
        [*_labels(data, dims, sizes, int(number)), *(f"{float(column[number]):.4g}" for column in columns)]
        for number in planned[:MOST_ROWS]
    ]
    title = "; ".join(f"{name}: {_title_of(data[name])}" for name in names)
    return Table(title, [*dims, *names], body, len(dims), max(0, len(planned) - MOST_ROWS))


def _labels(data: xr.DataArray | xr.Dataset, dims: Sequence[str], sizes: Sequence[int], number: int) -> list[str]:
    places = np.unravel_index(number, tuple(sizes)) if sizes else ()
    return [text_label(canonical(data[dim].values[i])) for dim, i in zip(dims, places, strict=True)]


def _title_of(array: xr.DataArray) -> str:
    name, units = str(array.attrs.get("long_name", array.name)), str(array.attrs.get("units", "1"))
    return name if units in ("", "1") else f"{name} ({units})"


def axes(data: xr.Dataset) -> list[Parameter]:
    """Parameters that the study varies."""
    return [_parameter(data[name], str(name)) for name in data["run_status"].dims]


def constants(data: xr.Dataset) -> list[Parameter]:
    """Parameters that it holds fixed."""
    return [_parameter(coord, str(name)) for name, coord in data.coords.items() if coord.ndim == 0]


def _parameter(coord: xr.DataArray, name: str) -> Parameter:
    values = coord.values.ravel()
    words = [_word(value) for value in values[:12]]
    shown = f"{words[0]} to {_word(values[-1])}" if _consecutive(values) else listed(words, 12)
    more = f", ... ({len(values):,} in all)" if len(values) > 12 and not _consecutive(values) else ""
    return Parameter(name, str(coord.attrs.get("long_name", "")), _cut(shown + more), len(values))


def _word(value: object) -> str:
    """A value as text, also one that cannot be a parameter's."""
    try:
        return text_label(canonical(value))
    except ValueError:
        return str(value)


def _consecutive(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bool:
    return len(values) > 3 and values.dtype.kind in "iu" and bool((np.diff(values.astype(np.int64)) == 1).all())


def _product(data: xr.Dataset, runs: Completeness) -> str:
    """Describe the number of points of the product of the axes, and the number of different runs."""
    if runs.planned == data["run_status"].size:
        return "one run for each point of the product"
    if runs.planned == runs.points:
        return f"one run for each of {runs.points:,} points of the product"
    holes = "" if runs.points == data["run_status"].size else f" of {data['run_status'].size:,}"
    return f"{runs.points:,}{holes} points, of which {runs.planned:,} are different runs"


def following(data: xr.Dataset) -> list[Table]:
    """Points of designs, a table each, and parameters that follow axes as the study's rules or its pilot set them."""
    names = list(map(str, data["run_status"].dims))
    brought = recorded(data)
    points: dict[str, list[xr.DataArray]] = {}
    found = []
    for name, coord in data.coords.items():
        dims = list(map(str, coord.dims))
        if not dims or name in data.dims or {name} & {*brought, *BOOKKEEPING} or not set(dims) <= set(names):
            continue
        if len(dims) == 1 and design_of(data, dims[0]):
            points.setdefault(dims[0], []).append(coord)
            continue
        sizes = [coord.sizes[dim] for dim in dims]
        body = [
            [*_labels(data, dims, sizes, i), _cut(_word(value))]
            for i, value in enumerate(coord.values.ravel()[:MOST_ROWS])
        ]
        title = f"{coord.attrs.get('long_name', name)}, which follows {' and '.join(dims)}"
        found.append(Table(title, [*dims, str(name)], body, len(dims), max(0, coord.size - MOST_ROWS)))
    return [*(_points(data, dim, along) for dim, along in points.items()), *found]


def _points(data: xr.Dataset, dim: str, along: Sequence[xr.DataArray]) -> Table:
    """The points of a design, with a column for each parameter; of those that were drawn the first."""
    design, size = design_of(data, dim), data.sizes[dim]
    most = FEW_POINTS if dim in drawn_dimensions(data) else MOST_ROWS
    columns = [data[dim].values[:most], *(coord.values[:most] for coord in along)]
    rows = [[str(number), *(_cut(_word(value)) for value in values)] for number, *values in zip(*columns, strict=True)]
    title = f"The {size:,} points of {dim}: {design.get('rule', design.get('kind', 'design'))}"
    return Table(title, [dim, *(str(coord.name) for coord in along)], rows, 1, max(0, size - most))


def provenance(path: Path, data: xr.Dataset) -> dict[str, str]:
    """Origin of the numbers, from the file's own attributes."""
    known = {"file": path.name, "study file": _base(str(data.attrs.get("study_file", "")))}
    for attribute, name in PROVENANCE.items():
        if attribute in data.attrs:
            text = str(data.attrs[attribute])
            known[name] = _versions(text) if attribute == "versions" else text
    sets = software_sets(data)
    if len(sets) > 1:
        known["software"] = f"{len(sets)} different sets of versions computed the runs; `evogt status` counts them"
    known["study, SHA-256"] = str(data.attrs.get("study_sha256", ""))
    known["history"] = _PATH.sub(r"\1", str(data.attrs.get("history", "")))  # without folders, as `_base`
    return {name: _cut(text, 2000) for name, text in known.items() if text}


def _versions(text: str) -> str:
    versions = _json(text)
    return ", ".join(f"{name} {version}" for name, version in versions.items()) if isinstance(versions, dict) else text


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def commands(path: Path, data: xr.Dataset, study: Part | None) -> list[tuple[str, str]]:
    """Return commands that compute the result again, each with its description."""
    stated = str(data.attrs.get("study_file", ""))
    toml = shlex.quote(_base(stated) or "study.toml")
    file = shlex.quote(path.name)
    again = shlex.quote(f"again/{path.name}")  # in another folder, which has no finished runs to reuse
    found = [
        (f"evogt run {toml} -o {again}", "all of it, from the study file below"),
        (f"evogt verify {file}", "checks the content of the file, and computes a sample of its runs again"),
    ]
    if stated.startswith("study "):  # it was stated in Python, and is in no file
        found = found[1:]
    this_page = (f"evogt report {file} -o {shlex.quote(path.stem + '.html')}", "this page")
    if not replays(data):
        return [(f"evogt verify {file}", "checks the content of the file"), this_page]
    pattern = " ".join(f"{name}=..." for name in map(str, data["run_status"].dims))
    found.append((f"evogt try {file} {pattern}", "one run, by its value of each axis, bit for bit"))
    if study is not None and study.runs.messages:
        first = study.runs.messages[0]
        point = " ".join(shlex.quote(f"{name}={value}") for name, value in first.at.items())
        found.append((f"evogt try {file} {point}", "one run that is not ok, with its traceback"))
    return [*found, this_page]


def replays(data: xr.Dataset) -> bool:
    """Return False for a study with a function that is in no file, whose text is recorded instead."""
    declared = _json(str(data.attrs.get(DECLARATION, "")))
    codes = declared.get("codes") if isinstance(declared, dict) else None
    return not (isinstance(codes, dict) and any(isinstance(each, dict) and "source" in each for each in codes.values()))


def _base(file: str) -> str:
    """Return the last part of a path of any system.  The folders of the author are private."""
    return PurePath(file.replace("\\", "/")).name


def _cut(text: str, limit: int = LONG) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


@dataclass(frozen=True, eq=False)
class Entry:
    """One result on the page of several.  file: its path from the page; others: a sentence for each other phase."""

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
    """Collect the entry of a result; groups: see `report`."""
    data = groups[MAIN]
    made = comparison_of(data)
    numbers = tables(data)[:1]
    return Entry(
        title=str(data.attrs.get("title") or file),
        file=file,
        study=part(data, numbers, made, most=FEW_PICTURES),
        others={phase: completeness(each).describe() for phase, each in groups.items() if phase != MAIN},
        finding=finding(made) if made is not None else None,
        problems=stated_problems(str(data.attrs.get("study", ""))),
        axes=axes(data),
        table=_first_rows(numbers[0]) if numbers else None,
    )


def overview(title: str, entries: Sequence[Entry], most_bytes: int) -> str:
    """Return the page of several results; each has the figures that fit into its share of `most_bytes`."""
    asked = [each.problems for each in entries]
    first = [asked.index(each) for each in asked]  # of those with the same problem, which states it
    page = template("overview.html.j2", title=title, entries=entries, first=first, column=COLUMN_WIDTH)
    share = (most_bytes - len(page.render(share=0).encode())) // len(entries)
    return page.render(share=share)


def _first_rows(its: Table) -> Table:
    rows = its.body[:FEW_ROWS]
    return replace(its, body=rows, left_out=its.left_out + len(its.body) - len(rows))
