"""The commands `evogt plot` and `evogt report`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evogt_study.cli.inputs import (
    PATH,
    Command,
    at_option,
    names,
    over_option,
    pilot_option,
    result_argument,
    runs_of_phase,
    runs_so_far,
)
from evogt_study.errors import InputError
from evogt_study.text import escape_text, tell

if TYPE_CHECKING:
    import xarray as xr

    from evogt_study.plots.canvas import PlotRequest

MAX_INCHES = 50
"""Largest side of a figure in inches.  At 300 dots per inch, two such sides make an image of 900 MB."""


@click.command(
    cls=Command,
    groups={
        "What to draw": "variable x hue col over points pilot",
        "Appearance": "title xlabel ylabel xscale yscale slope size",
        "Files": "output caption",
    },
)
@result_argument
@click.argument("kind", metavar="[KIND]", required=False)
@click.option("-o", "--output", type=PATH, help="Figure: .png, .pdf or .svg.  [default: beside FILE.nc]")
@click.option("--variable", metavar="NAME", help="Variable to draw.  [default: the first]")
@click.option("--x", metavar="AXIS", help="Axis along x, parameter that follows an axis, or recorded variable.")
@click.option("--hue", metavar="AXIS", help="Axis whose values are series, each with a colour and a marker.")
@click.option("--col", metavar="AXIS", help="Axis with a panel for each value.")
@over_option
@at_option
@click.option("--slope", default="", metavar="P,...", help="Slopes of reference lines of a dependence.")
@click.option("--title", default="", help="Title above the figure, with mathematics between dollars.")
@click.option("--xlabel", help="Label of the horizontal axes.")
@click.option("--ylabel", help="Label of the vertical axes.")
@click.option("--xscale", metavar="SCALE", help="linear or log.  [default: by the values]")
@click.option("--yscale", metavar="SCALE", help="linear or log.  [default: by the values]")
@click.option("--size", metavar="WxH", help="Width and height in inches, such as 3.4x2.6.")
@click.option("--caption", is_flag=True, help="Write footnotes and counts into a text file, not into the figure.")
@pilot_option
def plot(
    file: Path,
    kind: str | None,
    output: Path | None,
    variable: str | None,
    x: str | None,
    hue: str | None,
    col: str | None,
    over: str | None,
    points: tuple[str, ...],
    slope: str,
    title: str,
    xlabel: str | None,
    ylabel: str | None,
    xscale: str | None,
    yscale: str | None,
    size: str | None,
    caption: bool,
    pilot: bool,
) -> None:
    """Draw a result: one KIND of plot, or all kinds that fit.

    KIND is distribution, dependence, heat_map, trend, time_series, spectrum, scatter, comparison or fields.  Each
    figure gives the number of its runs.
    """
    from evogt_study.plots.canvas import FigureOptions, PlotRequest
    from evogt_study.plots.catalogue import check_kind
    from evogt_study.plots.groups import PlotRoles
    from evogt_study.study.case_space import read_point

    check_kind(kind)
    roles = PlotRoles(x, hue, col, None if over is None else names(over), read_point(",".join(points)))
    look = FigureOptions(title, xlabel, ylabel, None if size is None else _parse_size(size), xscale, yscale)
    request = PlotRequest(variable, roles, _parse_slopes(slope), look, notes=not caption)
    data = runs_of_phase(file, "pilot" if pilot else "main")
    for line, is_figure in draw_files(data, file, kind, request, output):
        tell(line, err=not is_figure)


def _parse_size(text: str) -> tuple[float, float]:
    """Read width and height in inches.  Raises InputError."""
    try:
        width, height = (float(each) for each in text.split("x"))
        # `not`, to refuse NaN too
        if not (0.5 <= width <= MAX_INCHES and 0.5 <= height <= MAX_INCHES):
            raise ValueError
    except ValueError:
        raise InputError(
            f"`--size` must be width x height in inches up to {MAX_INCHES}, got {text!r}; use e.g. 3.4x2.6"
        ) from None
    return width, height


def _parse_slopes(text: str) -> tuple[float, ...]:
    """Read slopes as numbers.  Raises InputError."""
    try:
        slopes = tuple(float(each) for each in (names(text) if text else ()))
        if not all(map(math.isfinite, slopes)):
            raise ValueError
    except ValueError:
        raise InputError(f"`--slope` must be numbers separated by commas, got {text!r}; use e.g. 1,2") from None
    return slopes


def draw_files(
    data: xr.Dataset, result: Path, kind: str | None, request: PlotRequest, output: Path | None
) -> Iterator[tuple[str, bool]]:
    """Draw one kind of plot, or all that fit the result; yield lines, and True if a line describes a figure.

    The file is `output`, or a PNG beside `result` with the name of the figure added, as with several figures.  Notes
    that the figure does not have go into a text file beside it.  A kind that fits the result but not the request
    yields the reason; if no kind is left, the first reason is raised.  Raises InputError and ResultError.
    """
    from evogt_study.plots import catalogue
    from evogt_study.plots.style import FORMATS, encode_figure

    base = output or result.with_name(f"{result.stem}.png")
    form = base.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise InputError(f"`--output` must end in .{', .'.join(FORMATS)}, got {base.name!r}")
    choices = [(kind, request)]
    if kind is None:
        fitting = catalogue.choose_plots(data, request)
        # without any, the distribution raises what is missing
        choices = [(each.kind, replace(request, variable=each.variable)) for each in fitting]
        choices = choices or [("distribution", request)]
        if request.variable is None and catalogue.lacks_error(data) and fitting:
            yield f"evogt: {catalogue.NO_SOLUTION_ERROR}; --variable draws other numbers", False
    failed: list[InputError] = []
    for name, its_request in choices:
        try:
            made = catalogue.draw_kind(data, str(name), its_request)
        except InputError as error:
            failed.append(error)
            if len(failed) == len(choices):
                raise failed[0] from None
            yield f"evogt: {name} is left out: {error}", False
            continue
        alone = len(choices) == 1 and output is not None
        path = base if alone else base.with_stem(f"{base.stem}_{made.name}")
        write(path, encode_figure(made.figure, form))
        if not request.notes:
            write(path.with_suffix(".txt"), f"{escape_text(f'{made.title}.  {made.caption}')}\n".encode())
        yield f"{path}: {made.title}. {made.alt}", True


def write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all.  Raises ResultError if the disk refuses."""
    from evogt_study.storage.atomic import check_writable, write_file

    check_writable(path)
    write_file(path, content, tidy=True)


@click.command(cls=Command, groups={"Result": "output"})
@result_argument
@click.option("-o", "--output", type=PATH, help="Page to write.  [default: beside FILE.nc]")
def report(file: Path, output: Path | None) -> None:
    """Write one HTML page of a result, with statistics, figures and provenance.

    The page is one file without scripts.  It opens in any browser without a network.
    """
    # a path such as "." has no name; reading it raises the error
    path = output or (file.with_suffix(".html") if file.name else Path("report.html"))
    check_page(path, "--output")
    write_report(file, path)
    tell(path)


def check_page(path: Path, option: str) -> None:
    """Raise InputError if the `path` of an option is not the name of a page."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"`{option}` must end in .html, got {path.name!r}")


def write_report(file: Path, path: Path, state: str = "") -> None:
    """Write the page of a result, or of its finished runs, to `path`; state: of its computation."""
    from evogt_study.publishing.report import report as page
    from evogt_study.results.netcdf import with_numbers

    with runs_so_far(file) as runs:
        made = page(file, {phase: with_numbers(data) for phase, data in runs.items()}, state)
    write(path, made.encode())
