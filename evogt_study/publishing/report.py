"""The page of one result: status, statistics, figures, provenance and commands.

A page is one file, loads nothing and runs nothing.  All text of the result is escaped.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import xarray as xr
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from evogt_study.analysis.design import design_of, sampled_dimensions
from evogt_study.analysis.runs import count_status
from evogt_study.analysis.statistics import summary
from evogt_study.analysis.tables import NumberFormat, make_table
from evogt_study.errors import ParameterError, cut
from evogt_study.methods.problem_kind import problem_kind_of
from evogt_study.plots import catalogue
from evogt_study.plots.canvas import PlotRequest
from evogt_study.plots.comparison import compare_axis, has_comparison, setup_names
from evogt_study.plots.groups import PlotRoles, title_of
from evogt_study.plots.style import COLUMN_WIDTH, encode_figure
from evogt_study.results.dataset import DECLARATION
from evogt_study.results.run_metadata import returned_coordinates, software_sets
from evogt_study.schema.status import Completeness
from evogt_study.schema.values import canonical, text_label
from evogt_study.schema.variables import BOOKKEEPING, MAIN, Status, accuracy_warnings, status_codes
from evogt_study.study.case_space import join_names
from evogt_study.text import escape_text

_MAX_SETUPS = 12
"""Setups that have a sentence each.  The figure of the comparison has more."""
MAX_ROWS, MAX_TABLES, MAX_FIGURES = 60, 12, 12
MAX_SAMPLE_POINTS = 12
MAX_VALUE = 200  # characters
DPI = 144.0
"""Pixels per inch of images inside figures, which have print size.  A page shows them up to twice as large."""
_PATH = re.compile(r"\S*[/\\](\S+)")
PROVENANCE: Mapping[str, str] = {
    "date_created": "date",
    "product_version": "evogt-study",
    "git_revision": "revision",
    "git_dirty": "uncommitted changes",
    "versions": "versions",
    "platform": "platform",
    "cpu": "processor",
}
"""Attributes of results that pages show, and what they call them."""
MOST_PROBLEMS = 12
"""Largest number of problems of an axis that a page shows.  The study file on the page has all."""


class Conclusion(NamedTuple):
    """A sentence on the whole study, and one for each of its setups if there are several."""

    sentence: str
    setups: Sequence[str] = ()
    left_out: int = 0


class ReportTable(NamedTuple):
    """A table of the page: the first `heads` columns name the row.  `left_out` rows are not shown."""

    title: str
    header: Sequence[str]
    body: Sequence[Sequence[str]]
    heads: int
    left_out: int = 0


class ReportPart(NamedTuple):
    """One phase of a result.  The pilot has figures and no tables."""

    runs: Completeness
    warnings: Sequence[str]
    tables: Sequence[ReportTable]
    figures: Sequence[catalogue.PlottedFigure]


def report(path: Path, groups: Mapping[str, xr.Dataset], state: str = "") -> str:
    """Return the page of a result that was read from `path`, by phase as `read_result` gives it.

    state: of its computation, while it is running.  The page shows it, and a browser reloads the page every minute.
    """
    main = groups.get(MAIN, next(iter(groups.values())))
    made = compare_main_variable(main) if MAIN in groups else None
    parts = {
        phase: _make_part(data, make_tables(data) if phase == MAIN else [], made if phase == MAIN else None)
        for phase, data in groups.items()
    }
    study = parts.get(MAIN)
    names = order_numbers(main) if study else []
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=FunctionLoader(lambda name: files(__package__).joinpath(name).read_text(encoding="utf-8")),
        finalize=lambda value: escape_text(value, "\n\t") if type(value) is str else value,
    )  # fmt: skip
    environment.filters["encode_image"] = encode_image
    page = environment.get_template("report.html.j2").render(
        title=str(main.attrs.get("title") or path.stem),
        study=study,
        pilot=parts.get("pilot"),
        conclusion=list_conclusions(made) if made is not None else None,
        problems=find_problems(str(main.attrs.get("study", ""))),
        axes=[_describe_parameter(main[name]) for name in main["run_status"].dims],
        state=state,
        more_tables=progress_by_setup(main) if state else [],
        missing_error=f"{catalogue.NO_SOLUTION_ERROR.capitalize()}." if catalogue.has_no_error(main) else "",
        has_main=catalogue.main_variable(main) is not None,
        attributes={str(name): str(value) for name, value in main.attrs.items()},
        product=_describe_product(main, (study or parts["pilot"]).runs),
        constants=[_describe_parameter(coord) for coord in main.coords.values() if coord.ndim == 0],
        study_file=_file_name(str(main.attrs.get("study_file", ""))),
        unshown=names[MAX_TABLES:],
        shows=f"evogt summary {shlex.quote(path.name)} --variable NAME{'' if 'seed' in main.dims else ' --over none'}",
        dependent=list_dependent(main),
        provenance=collect_provenance(path, main),
        commands=list_commands(path, main, study),
        column=COLUMN_WIDTH,
    )
    return page.lstrip()


def _make_part(data: xr.Dataset, tables: Sequence[ReportTable], compared: xr.Dataset | None) -> ReportPart:
    figures = [
        catalogue.draw_kind(data, choice.kind, PlotRequest(choice.variable, compared=compared))
        for choice in catalogue.choose_plots(data)[:MAX_FIGURES]
    ]
    return ReportPart(count_status(data), list(accuracy_warnings(data)), tables, figures)


def encode_image(plotted: catalogue.PlottedFigure) -> str:
    """Return a figure as a data URI.  In an <img> it can run nothing and cannot clash with another one."""
    svg = " ".join(encode_figure(plotted.figure, "svg", DPI).decode().split())
    return "data:image/svg+xml," + quote(svg, safe=" !()*+,/:;=?@")


def compare_main_variable(data: xr.Dataset) -> xr.Dataset | None:
    """Return the comparison of the main number by the axis of strings; None without either, or with too few seeds."""
    variable = catalogue.main_variable(data)
    if variable is None or not has_comparison(data, variable, PlotRoles()):
        return None
    return compare_axis(data, variable, PlotRoles())


def list_conclusions(made: xr.Dataset) -> Conclusion | None:
    """Return the conclusions of a comparison, or None if no setup has a leader."""
    leaders, conclusions = (made[name].values.ravel().tolist() for name in ("leader", "conclusion"))
    known = [i for i, leader in enumerate(leaders) if leader]
    if not known:
        return None
    setups = setup_names(made)
    sentences = [f"At {setups[i]}: {conclusions[i]}" if setups[i] else conclusions[i] for i in known]
    if len(known) == 1:
        return Conclusion(sentences[0])
    return Conclusion(_count_leads(made, known), sentences[:_MAX_SETUPS], max(0, len(known) - _MAX_SETUPS))


def _count_leads(made: xr.Dataset, known: Sequence[int]) -> str:
    """Return the number of setups in which a lead is significant, by axis value."""
    leaders, significant = (made[name].values.ravel() for name in ("leader", "significant"))
    leads = Counter(str(leaders[i]) for i in known if significant[i])
    what, by = (str(text).replace("_", " ") for text in (made.attrs["of"], made.attrs["dim"]))
    counts = f" ({join_names([f'{name} in {count}' for name, count in leads.most_common()], 12)})" if leads else ""
    better = str(made.attrs["better"]) or "lower"
    lead = f"a significantly {better} {what} than all others"
    if better not in ("lower", "higher"):
        lead = f"{what} significantly {better.replace('nearest', 'nearer to')} than all others"
    note = next((each for each in str(made["note"].values.ravel()[0]).split("; ") if "adjusted" in each), "")
    level = f"at {100.0 * made.attrs['confidence']:g} % confidence in each setup"
    message = f"In {sum(leads.values())} of {len(known)} setups one {by} has {lead}{counts}, {level}."
    return f"{message} The {note}." if note else message


def make_tables(data: xr.Dataset) -> list[ReportTable]:
    """Return statistics over the seeds of the first numbers of the runs; without seeds, the numbers themselves."""
    names = order_numbers(data)[:MAX_TABLES]
    if not names or ("seed" in data["run_status"].dims and data.sizes["seed"] > 1):
        return [_summarise(data[name], data["run_key"]) for name in names]
    dims = list(map(str, data["run_status"].dims))
    sizes = [data.sizes[dim] for dim in dims]
    planned = np.flatnonzero(data["run_key"].values.ravel() != "")
    columns = [np.broadcast_to(data[name].transpose(*dims).values, sizes).ravel() for name in names]
    body = [
        [*_axis_values(data, dims, int(number)), *(f"{float(column[number]):.4g}" for column in columns)]
        for number in planned[:MAX_ROWS]
    ]
    title = "; ".join(f"{name}: {title_of(data[name])}" for name in names)
    return [ReportTable(title, [*dims, *names], body, len(dims), max(0, len(planned) - MAX_ROWS))]


def order_numbers(data: xr.Dataset) -> list[str]:
    """Return the numbers of the runs by name, the main number first."""
    first = catalogue.main_variable(data)
    return sorted(catalogue.list_numbers(data), key=lambda name: name != first)


def _summarise(values: xr.DataArray, keys: xr.DataArray, over: str = "seed") -> ReportTable:
    """Return mean, standard deviation, median, interval and n over one axis, at the first points of the others."""
    dims = [str(dim) for dim in values.dims if dim != over]
    flat, runs = (each.transpose(*dims, over).values.reshape(-1, each.sizes[over]) for each in (values, keys))
    groups = np.flatnonzero((runs != "").any(axis=1))
    shown = groups[:MAX_ROWS]  # before the statistics, which are of these alone
    array = xr.DataArray(flat[shown], {"group": shown}, ("group", over), name=values.name, attrs=values.attrs)
    planned = xr.DataArray(runs[shown], dims=array.dims)
    # without a warning: the page has n beside each number, and the missing runs above the tables
    header, body = make_table(summary(array, over, planned=planned, missing="drop")).flatten(NumberFormat())
    rows = [[*_axis_values(values, dims, int(row[0])), *row[1:]] for row in body]  # which begin with the group
    left_out = len(groups) - len(shown)
    return ReportTable(f"{title_of(values)}, over {over}", [*dims, *header[1:]], rows, len(dims), left_out)


def progress_by_setup(data: xr.Dataset) -> list[ReportTable]:
    """Return finished and failed runs of each setup, and their seconds; the slowest setup first."""
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
    slow = known[np.argsort(-np.nan_to_num(mean[known], nan=-1.0), kind="stable")][:MAX_ROWS]
    body = [
        [*_axis_values(data, dims, int(i)), f"{done[i]:,}/{of[i]:,}", f"{failed[i]:,}",
         *(f"{each[i]:.3g}" if np.isfinite(each[i]) else "–" for each in (mean, largest))]
        for i in slow
    ]  # fmt: skip
    header = [*dims, "finished", "not ok", "mean seconds", "largest"]
    return [ReportTable("Progress by setup, the slowest first", header, body, len(dims), len(known) - len(slow))]


def _axis_values(data: xr.DataArray | xr.Dataset, dims: Sequence[str], number: int) -> list[str]:
    """Return the axis values of a point of the product, by its number."""
    places = np.unravel_index(number, tuple(data.sizes[dim] for dim in dims)) if dims else ()
    return [text_label(canonical(data[dim].values[i])) for dim, i in zip(dims, places, strict=True)]


def _describe_parameter(coord: xr.DataArray) -> dict[str, Any]:
    """Return name, long name, values and their number."""
    values = coord.values.ravel()
    texts = [_to_text(value) for value in values[:12]]
    text = join_names(texts, 12) + (f", ... ({len(values):,} in all)" if len(values) > 12 else "")
    if len(values) > 3 and values.dtype.kind in "iu" and bool((np.diff(values.astype(np.int64)) == 1).all()):
        text = f"{texts[0]} to {_to_text(values[-1])}"
    long_name = title_of(coord) if title_of(coord) != coord.name else ""
    return {"name": str(coord.name), "long_name": long_name, "values": cut(text, MAX_VALUE), "count": len(values)}


def _to_text(value: object) -> str:
    """Return any value as text, also one that cannot be the value of a parameter."""
    try:
        return text_label(canonical(value))
    except ValueError:
        return str(value)


def _describe_product(data: xr.Dataset, runs: Completeness) -> str:
    """Return the number of points of the product of the axes, and the number of different runs."""
    size = data["run_status"].size
    if runs.planned == size:
        return "one run for each point of the product"
    if runs.planned == runs.points:
        return f"one run for each of {runs.points:,} points of the product"
    holes = "" if runs.points == size else f" of {size:,}"
    return f"{runs.points:,}{holes} points with {runs.planned:,} different runs"


def list_dependent(data: xr.Dataset) -> list[ReportTable]:
    """Return the points of designs, a table each, and the parameters that follow axes by rules or by the pilot."""
    names, brought = list(map(str, data["run_status"].dims)), returned_coordinates(data)
    points: dict[str, list[xr.DataArray]] = {}
    found = []
    for name, coord in data.coords.items():
        dims = list(map(str, coord.dims))
        if not dims or name in data.dims or {name} & {*brought, *BOOKKEEPING} or not set(dims) <= set(names):
            continue
        if len(dims) == 1 and design_of(data, dims[0]):
            points.setdefault(dims[0], []).append(coord)
            continue
        values = coord.values.ravel()[:MAX_ROWS]
        body = [[*_axis_values(coord, dims, i), cut(_to_text(value), MAX_VALUE)] for i, value in enumerate(values)]
        title = f"{title_of(coord)}, which follows {' and '.join(dims)}"
        found.append(ReportTable(title, [*dims, str(name)], body, len(dims), max(0, coord.size - MAX_ROWS)))
    return [*(_list_points(data, dim, along) for dim, along in points.items()), *found]


def _list_points(data: xr.Dataset, dim: str, along: Sequence[xr.DataArray]) -> ReportTable:
    """Return the points of a design, with a column for each parameter; of a random sample the first."""
    design, size = design_of(data, dim), data.sizes[dim]
    most = MAX_SAMPLE_POINTS if dim in sampled_dimensions(data) else MAX_ROWS
    columns = [data[dim].values[:most], *(coord.values[:most] for coord in along)]
    body = [
        [str(number), *(cut(_to_text(value), MAX_VALUE) for value in values)]
        for number, *values in zip(*columns, strict=True)
    ]
    title = f"The {size:,} points of {dim}: {design.get('rule', design.get('kind', 'design'))}"
    return ReportTable(title, [dim, *(str(coord.name) for coord in along)], body, 1, max(0, size - most))


def collect_provenance(path: Path, data: xr.Dataset) -> dict[str, str]:
    """Return the origin of the numbers, from the attributes of the file, without folders of the author."""
    known = {"file": path.name, "study file": _file_name(str(data.attrs.get("study_file", "")))}
    known |= {name: str(data.attrs[key]) for key, name in PROVENANCE.items() if key in data.attrs}
    versions = _parse_json(known.get("versions", ""))
    if isinstance(versions, dict):
        known["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    sets = software_sets(data)
    if len(sets) > 1:
        known["software"] = f"{len(sets)} different sets of versions computed the runs; `evogt status` counts them"
    known["study, SHA-256"] = str(data.attrs.get("study_sha256", ""))
    known["history"] = _PATH.sub(r"\1", str(data.attrs.get("history", "")))
    return {name: cut(text, 2000) for name, text in known.items() if text}


def _parse_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def list_commands(path: Path, data: xr.Dataset, study: ReportPart | None) -> list[tuple[str, str]]:
    """Return commands that compute the result again, each with its description."""
    stated = str(data.attrs.get("study_file", ""))
    toml, file = shlex.quote(_file_name(stated) or "study.toml"), shlex.quote(path.name)
    again = shlex.quote(f"again/{path.name}")  # in another folder, which has no finished runs to reuse
    verify = (f"evogt verify {file}", "check the content of the file")
    page = (f"evogt report {file} -o {shlex.quote(path.stem + '.html')}", "write this page")
    if not _can_rerun(data):
        return [verify, page]
    found = [verify]
    if not stated.startswith("study "):  # a study that was stated in Python has no file
        found.insert(0, (f"evogt run {toml} -o {again}", "compute all runs of the study file below"))
    pattern = " ".join(f"{name}=..." for name in map(str, data["run_status"].dims))
    found.append((f"evogt try {file} {pattern}", "compute one run, by its value of each axis, bit for bit"))
    if study is not None and study.runs.messages:
        point = " ".join(shlex.quote(f"{name}={value}") for name, value in study.runs.messages[0].at.items())
        found.append((f"evogt try {file} {point}", "show the traceback of one run that is not ok"))
    return [*found, page]


def _can_rerun(data: xr.Dataset) -> bool:
    """Test for a study whose functions are in files.  Other functions are recorded as text."""
    declared = _parse_json(str(data.attrs.get(DECLARATION, "")))
    codes = declared.get("codes") if isinstance(declared, dict) else None
    return not (isinstance(codes, dict) and any(isinstance(each, dict) and "source" in each for each in codes.values()))


def _file_name(file: str) -> str:
    """Return the last part of a path of any system.  The folders of the author are private."""
    return PurePath(file.replace("\\", "/")).name


def find_problems(study: str) -> dict[str, Markup]:
    """Return the problems that the text of a study states, as lists in HTML, by axis value, or "" for the only one."""
    try:
        table = tomllib.loads(study)
    except (ValueError, RecursionError):
        return {}
    axes = table.get("axes")
    several = axes.get("problem") if isinstance(axes, dict) else None
    if isinstance(several, list):
        several = {str(each): each for each in several}
    labelled = several if isinstance(several, dict) else {"": table.get("problem")}
    found = {str(label): _describe_problem(raw) for label, raw in list(labelled.items())[:MOST_PROBLEMS]}
    return {label: items for label, items in found.items() if items}


def _describe_problem(stated: object) -> Markup:
    """Return the description of a problem by its kind, or nothing without a kind."""
    if isinstance(stated, str) and ":" in stated:
        return Markup("<li>The problem is made by {}.</li>").format(PurePath(stated.replace(chr(92), "/")).name)
    try:
        return Markup(problem_kind_of(stated).describe(stated)) if isinstance(stated, (str, dict)) else Markup("")  # noqa: S704
    except ParameterError:
        return Markup("")
