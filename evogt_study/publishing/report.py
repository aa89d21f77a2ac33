"""Write the HTML page of one result, with status, statistics, figures, provenance and commands.

A page has no scripts and loads no other file.  All text of the result is escaped.
"""

import json
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import xarray as xr
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from evogt_study.analysis.export import run_table
from evogt_study.analysis.runs import count_status, find_drawn_dimensions, read_design
from evogt_study.analysis.statistics import summary
from evogt_study.analysis.tables import NO_SOLUTION_ERROR, NumberFormat, has_no_error, make_table
from evogt_study.errors import Completeness, ParameterError, cut
from evogt_study.methods.protocol import find_problem_kind
from evogt_study.plots import catalogue
from evogt_study.plots.axis_plots import compare_axis, has_comparison, name_setups
from evogt_study.plots.canvas import PlottedFigure
from evogt_study.plots.groups import PlotRequest, make_title
from evogt_study.plots.style import COLUMN_INCHES, encode_figure
from evogt_study.results.dataset import DECLARATION
from evogt_study.results.netcdf import list_returned_coordinates, read_software_sets
from evogt_study.schema.values import to_canonical, to_string
from evogt_study.schema.variables import MAIN, RUN_METADATA, list_accuracy_warnings
from evogt_study.study.case_space import join_names
from evogt_study.text import escape_text

MAX_ROWS, MAX_CHARACTERS = 60, 200  # rows of a table, and characters of a text
MAX_TABLES = MAX_FIGURES = MAX_SAMPLE_POINTS = MAX_PROBLEMS = 12
_MAX_SETUPS = 12  # setups with a sentence about the comparison
DPI = 144.0  # pixels per inch of images inside figures, for pages that show figures at twice the size of print
_PATH = re.compile(r"\S*[/\\](\S+)")
PROVENANCE: Mapping[str, str] = {
    "date_created": "date", "product_version": "evogt-study", "git_revision": "revision",
    "git_dirty": "uncommitted changes", "versions": "versions", "platform": "platform", "cpu": "processor",
}  # fmt: skip
"""Attributes of a result in the provenance on a page, with their names on the page."""


class ReportTable(NamedTuple):
    """Table of a page.  The first `heads` columns are row headings.  The columns `texts` contain long texts."""

    title: str
    header: Sequence[str]
    body: Sequence[Sequence[str]]
    heads: int
    left_out: int = 0
    texts: Sequence[str] = ("note",)


class ReportPart(NamedTuple):
    """Content of a page for one phase of a result.  The pilot has no tables."""

    runs: Completeness
    warnings: Sequence[str]
    messages: ReportTable
    tables: Sequence[ReportTable]
    figures: Sequence[PlottedFigure]


def report(path: Path, groups: Mapping[str, xr.Dataset], state: str = "") -> str:
    """Return the HTML page of a result.  With a `state` of the computation, browsers reload the page every minute."""
    main = groups.get(MAIN, next(iter(groups.values())))
    made = compare_main_variable(main) if MAIN in groups else None
    parts = {}
    for phase, data in groups.items():
        figures = [
            catalogue.draw_kind(data, kind, PlotRequest(variable, compared=made if phase == MAIN else None))
            for kind, variable in catalogue.choose_plots(data)[:MAX_FIGURES]
        ]
        runs, header = count_status(data), ["Runs", "Message", "Example"]
        body = [[f"{each.count:,}", each.text, each.where] for each in runs.messages]
        title = "Error messages (one row for messages that differ only in numbers)"
        messages = ReportTable(title, header, body, 0, texts=header[1:])
        tables = make_tables(data) if phase == MAIN else []
        parts[phase] = ReportPart(runs, list(list_accuracy_warnings(data)), messages, tables, figures)
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
        conclusions=list_conclusions(made) if made is not None else [],
        most_setups=_MAX_SETUPS,
        problems=find_problems(str(main.attrs.get("study", ""))),
        axes=_list_axes(main, (study or parts["pilot"]).runs),
        state=state,
        more_tables=list_setup_progress(main) if state else [],
        missing_error=f"{NO_SOLUTION_ERROR.capitalize()}." if has_no_error(main) else "",
        has_main=catalogue.find_main_variable(main) is not None,
        attributes={str(name): str(value) for name, value in main.attrs.items()},
        constants=[_describe_parameter(coord) for coord in main.coords.values() if coord.ndim == 0],
        study_file=_cut_folder_names(str(main.attrs.get("study_file", ""))),
        unshown=names[MAX_TABLES:],
        shows=f"evogt summary {shlex.quote(path.name)} --variable NAME{'' if 'seed' in main.dims else ' --over none'}",
        dependent=list_dependent(main),
        provenance=collect_provenance(path, main),
        commands=list_commands(path, main, study),
        column=COLUMN_INCHES,
    )
    return page.lstrip()


def encode_image(plotted: PlottedFigure) -> str:
    """Encode a figure as a data URI for <img>, where an SVG image cannot execute scripts."""
    svg = " ".join(encode_figure(plotted.figure, "svg", DPI).decode().split())
    return "data:image/svg+xml," + quote(svg, safe=" !()*+,/:;=?@")


def compare_main_variable(data: xr.Dataset) -> xr.Dataset | None:
    """Compare the values of the axis of strings by the main variable, or return None if this is not possible."""
    variable = catalogue.find_main_variable(data)
    if variable is None or not has_comparison(data, variable, PlotRequest()):
        return None
    return compare_axis(data, variable, PlotRequest())


def list_conclusions(made: xr.Dataset) -> list[str]:
    """Return a sentence for each setup with a leader, after a sentence about all setups if there are several."""
    leaders, conclusions, significant = (
        made[name].values.ravel().tolist() for name in ("leader", "conclusion", "significant")
    )
    known = [i for i, leader in enumerate(leaders) if leader]
    setups = name_setups(made)
    sentences = [f"At {setups[i]}: {conclusions[i]}" if setups[i] else conclusions[i] for i in known]
    if len(known) < 2:
        return sentences
    leads = Counter(str(leaders[i]) for i in known if significant[i])
    what, by = (str(text).replace("_", " ") for text in (made.attrs["of"], made.attrs["dim"]))
    counts = f" ({join_names([f'{name} in {count}' for name, count in leads.most_common()], 12)})" if leads else ""
    better = str(made.attrs["better"]) or "lower"
    lead = f"a significantly {better} {what} than all others"
    if better not in ("lower", "higher"):
        lead = f"{what} significantly {better.replace('nearest', 'nearer to')} than all others"
    level = f"at {100.0 * made.attrs['confidence']:g} % confidence in each setup"
    message = f"In {sum(leads.values())} of {len(known)} setups one {by} has {lead}{counts}, {level}."
    note = next((each for each in str(made["note"].values.ravel()[0]).split("; ") if "adjusted" in each), "")
    message += f" The {note}." if note else ""
    return [message, *sentences]


def make_tables(data: xr.Dataset) -> list[ReportTable]:
    """Return tables of statistics over the seeds, or a table of the runs if there is only one seed."""
    names, dims = order_numbers(data)[:MAX_TABLES], list(map(str, data["run_status"].dims))
    if not names or ("seed" in dims and data.sizes["seed"] > 1):
        return [_summarise_variable(data[name], data["run_key"]) for name in names]
    runs = run_table(data[[*names, "run_status", "run_key", "run_message"]])
    columns = [list(map(_to_text, runs[dim][:MAX_ROWS])) for dim in dims]
    columns += [[f"{each:.4g}" for each in np.array(runs[name][:MAX_ROWS], dtype=float)] for name in names]
    title = "; ".join(f"{name}: {make_title(data[name])}" for name in names)
    left_out = max(0, len(runs["run_status"]) - MAX_ROWS)
    return [ReportTable(title, [*dims, *names], list(zip(*columns, strict=True)), len(dims), left_out)]


def order_numbers(data: xr.Dataset) -> list[str]:
    """Return the names of the numeric variables, starting with the main variable."""
    first = catalogue.find_main_variable(data)
    return sorted(catalogue.list_numbers(data), key=lambda name: name != first)


def _summarise_variable(values: xr.DataArray, keys: xr.DataArray, over: str = "seed") -> ReportTable:
    """Return a table of statistics over one axis, with a row for each of the first setups."""
    dims = [str(dim) for dim in values.dims if dim != over]
    flat, runs = (each.transpose(*dims, over).values.reshape(-1, each.sizes[over]) for each in (values, keys))
    groups = np.flatnonzero((runs != "").any(axis=1))
    shown = groups[:MAX_ROWS]  # only for the rows on the page
    array = xr.DataArray(flat[shown], {"group": shown}, ("group", over), name=values.name, attrs=values.attrs)
    planned = xr.DataArray(runs[shown], dims=array.dims)
    # no warning, because the page shows n beside each number and lists the missing runs
    header, body = make_table(summary(array, over, planned=planned, missing="drop")).flatten(NumberFormat())
    rows = [[*_label_point(values, dims, int(row[0])), *row[1:]] for row in body]  # row[0] is the number of the setup
    left_out = len(groups) - len(shown)
    return ReportTable(f"{make_title(values)}, over {over}", [*dims, *header[1:]], rows, len(dims), left_out)


def list_setup_progress(data: xr.Dataset) -> list[ReportTable]:
    """Return a table with the finished runs, failed runs and seconds of each setup, the slowest setup first."""
    dims = [str(dim) for dim in data["run_status"].dims if dim != "seed"]
    runs = run_table(data[["run_status", "run_key", "run_message", "run_seconds"]])
    if not dims or not len(runs):
        return []
    runs["finished"], runs["failed"] = runs["run_status"] != "not_run", ~runs["run_status"].isin(["ok", "not_run"])
    runs["run_seconds"] = runs["run_seconds"].where(runs["run_seconds"] > 0.0)
    setups = runs.groupby(dims, sort=False, dropna=False).agg(
        done=("finished", "sum"), of=("finished", "size"), failed=("failed", "sum"), mean=("run_seconds", "mean"),
        largest=("run_seconds", "max"),
    )  # fmt: skip
    slowest = setups.sort_values("mean", ascending=False, kind="stable").head(MAX_ROWS)
    body = [
        [*map(_to_text, each[: len(dims)]), f"{each.done:,}/{each.of:,}", f"{each.failed:,}",
         *(f"{number:.3g}" if np.isfinite(number) else "–" for number in each[-2:])]
        for each in slowest.reset_index().itertuples(index=False)
    ]  # fmt: skip
    header, left_out = [*dims, "finished", "not ok", "mean seconds", "largest"], len(setups) - len(slowest)
    return [ReportTable("Progress by setup, slowest setup first", header, body, len(dims), left_out)]


def _label_point(data: xr.DataArray | xr.Dataset, dims: Sequence[str], number: int) -> list[str]:
    """Return the axis values of the point with index `number` in the product of the axes `dims`."""
    places = np.unravel_index(number, tuple(data.sizes[dim] for dim in dims)) if dims else ()
    return [to_string(to_canonical(data[dim].values[i])) for dim, i in zip(dims, places, strict=True)]


def _describe_parameter(coord: xr.DataArray) -> dict[str, Any]:
    """Return the name, the long name, the values and the number of values of a coordinate."""
    values = coord.values.ravel()
    texts = [_to_text(value) for value in values[:12]]
    text = join_names(texts, 12) + (f", ... ({len(values):,} in all)" if len(values) > 12 else "")
    if len(values) > 3 and values.dtype.kind in "iu" and bool((np.diff(values.astype(np.int64)) == 1).all()):
        text = f"{texts[0]} to {_to_text(values[-1])}"
    long_name = make_title(coord) if make_title(coord) != coord.name else ""
    return {"name": str(coord.name), "long_name": long_name, "values": cut(text, MAX_CHARACTERS), "count": len(values)}


def _to_text(value: object) -> str:
    """Format a value as text, also if no parameter can have this value."""
    try:
        return to_string(to_canonical(value))
    except ValueError:
        return str(value)


def _list_axes(data: xr.Dataset, runs: Completeness) -> ReportTable:
    """Return a table of the axes, with the numbers of points and runs in its title."""
    size = data["run_status"].size
    holes = "" if runs.points == size else f" of {size:,}"
    product = f"{runs.points:,}{holes} points with {runs.planned:,} different runs"
    if runs.planned == runs.points:
        product = f"one run for each of {runs.points:,} points of the product"
    if runs.planned == size:
        product = "one run for each point of the product"
    axes = [_describe_parameter(data[name]) for name in data["run_status"].dims]
    body = [[each["name"], each["long_name"], f"{each['count']:,}", each["values"]] for each in axes]
    header = ["Axis", "Description", "Number", "Values"]
    return ReportTable(f"Axes; {product}", header, body, 1, texts=("Description", "Values"))


def list_dependent(data: xr.Dataset) -> list[ReportTable]:
    """Return a table for each design, and for each parameter that depends on axes by a rule or by the pilot."""
    names, brought = list(map(str, data["run_status"].dims)), list_returned_coordinates(data)
    points: dict[str, list[xr.DataArray]] = {}
    found = []
    for name, coord in data.coords.items():
        dims = list(map(str, coord.dims))
        if not dims or name in data.dims or {name} & {*brought, *RUN_METADATA} or not set(dims) <= set(names):
            continue
        if len(dims) == 1 and read_design(data, dims[0]):
            points.setdefault(dims[0], []).append(coord)
            continue
        values = coord.values.ravel()[:MAX_ROWS]
        body = [[*_label_point(coord, dims, i), cut(_to_text(value), MAX_CHARACTERS)] for i, value in enumerate(values)]
        title = f"{make_title(coord)}, which follows {' and '.join(dims)}"
        found.append(ReportTable(title, [*dims, str(name)], body, len(dims), max(0, coord.size - MAX_ROWS)))
    for dim, along in reversed(points.items()):
        design, size = read_design(data, dim), data.sizes[dim]
        # only the first points of a random sample
        most = MAX_SAMPLE_POINTS if dim in find_drawn_dimensions(data) else MAX_ROWS
        columns = [[str(number) for number in data[dim].values[:most]]]
        columns += [[cut(_to_text(value), MAX_CHARACTERS) for value in coord.values[:most]] for coord in along]
        title = f"The {size:,} points of {dim}: {design.get('rule', design.get('kind', 'design'))}"
        header = [dim, *(str(coord.name) for coord in along)]
        found.insert(0, ReportTable(title, header, list(zip(*columns, strict=True)), 1, max(0, size - most)))
    return found


def collect_provenance(path: Path, data: xr.Dataset) -> dict[str, str]:
    """Return the provenance of a result from its attributes, without the folders of the author."""
    known = {"file": path.name, "study file": _cut_folder_names(str(data.attrs.get("study_file", "")))}
    known |= {name: str(data.attrs[key]) for key, name in PROVENANCE.items() if key in data.attrs}
    versions = _parse_table(known.get("versions", ""))
    if versions:
        known["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    sets = read_software_sets(data)
    if len(sets) > 1:
        known["software"] = (
            f"{len(sets)} different sets of versions computed the runs. `evogt status` counts the runs of each set."
        )
    known["study, SHA-256"] = str(data.attrs.get("study_sha256", ""))
    known["history"] = _PATH.sub(r"\1", str(data.attrs.get("history", "")))
    return {name: cut(text, 2000) for name, text in known.items() if text}


def _parse_table(text: str) -> dict[str, Any]:
    """Parse a JSON object, or return an empty dictionary for invalid text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def list_commands(path: Path, data: xr.Dataset, study: ReportPart | None) -> list[tuple[str, str]]:
    """Return commands that check or repeat a result, each with a description."""
    stated = str(data.attrs.get("study_file", ""))
    toml, file = shlex.quote(_cut_folder_names(stated) or "study.toml"), shlex.quote(path.name)
    again = shlex.quote(f"again/{path.name}")  # another folder, without finished runs to reuse
    found = [(f"evogt verify {file}", "check the content of the file")]
    page = (f"evogt report {file} -o {shlex.quote(path.stem + '.html')}", "write this page")
    codes = _parse_table(str(data.attrs.get(DECLARATION, ""))).get("codes")
    # a result records functions without a file as text
    if isinstance(codes, dict) and any(isinstance(each, dict) and "source" in each for each in codes.values()):
        return [*found, page]
    if not stated.startswith("study "):  # not for a study in Python, which has no file
        found.insert(0, (f"evogt run {toml} -o {again}", "compute all runs of the study file below"))
    pattern = " ".join(f"{name}=..." for name in map(str, data["run_status"].dims))
    found.append((f"evogt try {file} {pattern}", "compute one run again, selected by its axis values"))
    if study is not None and study.runs.messages:
        point = " ".join(shlex.quote(f"{name}={value}") for name, value in study.runs.messages[0].at.items())
        found.append((f"evogt try {file} {point}", "show the traceback of one run that is not ok"))
    return [*found, page]


def _cut_folder_names(file: str) -> str:
    """Return the last part of a path of any operating system, because folder names are private."""
    return PurePath(file.replace("\\", "/")).name


def find_problems(study: str) -> dict[str, Markup]:
    """Return the problems of a study as HTML lists by axis value, or with the key "" if no axis varies the problem."""
    try:
        table = tomllib.loads(study)
    except (ValueError, RecursionError):
        return {}
    axes = table.get("axes")
    several = axes.get("problem") if isinstance(axes, dict) else None
    if isinstance(several, list):
        several = {str(each): each for each in several}
    labelled = several if isinstance(several, dict) else {"": table.get("problem")}
    found = {}
    for label, stated in list(labelled.items())[:MAX_PROBLEMS]:
        with suppress(ParameterError):
            if isinstance(stated, str) and ":" in stated:
                found[str(label)] = Markup("<li>{} defines the problem.</li>").format(_cut_folder_names(stated))
            elif isinstance(stated, (str, dict)):
                found[str(label)] = Markup(find_problem_kind(stated).describe(stated))  # noqa: S704
    return {label: items for label, items in found.items() if items}
