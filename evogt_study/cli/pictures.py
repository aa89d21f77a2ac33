"""Define the commands `evogt plot` and `evogt report`."""

import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from evogt_study.cli import display, inputs
from evogt_study.cli.inputs import option
from evogt_study.errors import InputError
from evogt_study.text import escape_text, print_line

MAX_INCHES = 50  # largest width and height of a figure: at 300 dots per inch, the image takes 900 MB


def _read_numbers(example: str, sign: str, count: int | None, most: float) -> Any:
    """Return a Click callback that parses numbers with the separator `sign`.  The callback raises InputError."""

    def read(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[float, ...] | None:
        if text is None:
            return None
        found: tuple[float, ...] = (math.nan,)
        least = -most if count is None else 0.5
        with suppress(ValueError):
            found = tuple(map(float, text.split(sign)))
        if not all(least <= each <= most for each in found) or len(found) != (count or len(found)):
            limit = f" up to {most:g} inches" if count else ""
            raise InputError(f"`{param.opts[-1]}` must be numbers{limit}, such as {example}, got {text!r}")
        return found

    return read


@inputs.make_command([inputs.RESULT_FILE, inputs.argument("kind", "[KIND]", required=False, type=str)], {
    "What to draw": [
        option("--variable", "NAME", "Variable to draw.  [default: the first]"),
        option("--x", "AXIS", "Axis along x, parameter that follows an axis, or recorded variable."),
        option("--hue", "AXIS", "Axis whose values are series, each with a colour and a marker."),
        option("--col", "AXIS", "Axis with a panel for each value."),
        inputs.OVER, inputs.AT, inputs.PILOT,
    ],
    "Appearance": [
        option("--title", "TEXT", "Title above the figure, with mathematics between dollars.", default=""),
        option("--xlabel", "TEXT", "Label of the horizontal axes."),
        option("--ylabel", "TEXT", "Label of the vertical axes."),
        option("--xscale", "SCALE", "linear or log.  [default: by the values]"),
        option("--yscale", "SCALE", "linear or log.  [default: by the values]"),
        option("--slope", "P,...", "Slopes of reference lines of a dependence.", type=str,
               callback=_read_numbers("1,2", ",", None, 1e100)),
        option("--size", "WxH", "Width and height in inches, such as 3.4x2.6.",
               callback=_read_numbers("3.4x2.6", "x", 2, MAX_INCHES)),
    ],
    "Files": [
        option("-o --output", "PATH", "Figure: .png, .pdf or .svg.  [default: beside FILE.nc]"),
        option("--caption", "", "Write footnotes and counts into a text file, not into the figure."),
    ],
    "Other": [],
})  # fmt: skip
def plot(
    file: Path, kind: str | None, output: Path | None, slope: tuple[float, ...] | None, caption: bool, pilot: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Draw figures of a result, by default all kinds of plot that fit.

    KIND is distribution, dependence, heat_map, trend, time_series, spectrum, scatter, comparison or fields.  Each
    figure shows the number of its runs.
    """
    from evogt_study.analysis.tables import NO_SOLUTION_ERROR, has_no_error
    from evogt_study.plots import catalogue
    from evogt_study.plots.groups import PlotRequest
    from evogt_study.plots.style import FORMATS, encode_figure

    request = PlotRequest(slope=slope or (), notes=not caption, **options)
    base = output or file.with_name(f"{file.stem}.png")
    form = base.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise InputError(f"`--output` must end in .{', .'.join(FORMATS)}, got {base.name!r}")
    data, choices = inputs.read_phase(file, "pilot" if pilot else "main"), [(kind, request)]
    if kind is None:
        fitting = catalogue.choose_plots(data, request)
        # if no kind fits, draw the distribution, which raises an error with the reason
        choices = [(each.kind, replace(request, variable=each.variable)) for each in fitting]
        choices = choices or [("distribution", request)]
        if request.variable is None and has_no_error(data) and fitting:
            display.print_warning([f"{NO_SOLUTION_ERROR}. Choose another variable with --variable."])
    failed: list[InputError] = []
    for name, its_request in choices:
        try:
            made = catalogue.draw_kind(data, str(name), its_request)
        except InputError as error:  # the kind fits the result, but not the options
            failed.append(error)
            if len(failed) == len(choices):
                raise failed[0] from None
            display.print_warning([f"{name} is left out: {inputs.name_options(str(error))}"])
            continue
        # add the kind of plot to the name of each figure
        alone = len(choices) == 1 and output is not None
        path = base if alone else base.with_stem(f"{base.stem}_{made.name}")
        write_output(path, encode_figure(made.figure, form))
        if caption:
            write_output(path.with_suffix(".txt"), f"{escape_text(f'{made.title}.  {made.caption}')}\n".encode())
        print_line(f"{path}: {made.title}. {made.alt}")


def write_output(path: Path, content: bytes) -> None:
    """Write a file atomically.  Raises ResultError if the system cannot write the file."""
    from evogt_study.storage.files import check_writable, write_file

    check_writable(path)
    write_file(path, content, tidy=True)


@inputs.make_command([inputs.RESULT_FILE], [option("-o --output", "PATH", "Page to write.  [default: beside FILE.nc]")])
def report(file: Path, output: Path | None) -> None:
    """Write one HTML page of a result, with statistics, figures and provenance.

    The page is one file without scripts.  The page opens in any browser without a network.
    """
    # for a path without a name, such as ".", the reader raises the error
    path = output or (file.with_suffix(".html") if file.name else Path("report.html"))
    check_page(path, "--output")
    write_report(file, path)
    print_line(path)


def check_page(path: Path, option: str) -> None:
    """Raise InputError if the path of an option does not end in ".html"."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"`{option}` must end in .html, got {path.name!r}")


def write_report(file: Path, path: Path, state: str = "") -> None:
    """Write the HTML page of a finished or unfinished result.  `state` describes the computation."""
    from evogt_study.publishing.report import report as page
    from evogt_study.results.netcdf import load_numbers

    with inputs.open_runs_so_far(file) as runs:
        made = page(file, {phase: load_numbers(data) for phase, data in runs.items()}, state)
    write_output(path, made.encode())
