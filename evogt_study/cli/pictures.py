"""The commands `evogt plot` and `evogt report`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from evogt_study.cli.inputs import names, over_option, runs_of_phase, runs_so_far
from evogt_study.errors import InputError
from evogt_study.text import shown, tell

if TYPE_CHECKING:
    import xarray as xr

    from evogt_study.plots import catalogue as kinds
    from evogt_study.plots.catalogue import Drawn

MOST_INCHES = 50
"""Largest side of a figure in inches.  At 300 dots per inch, two such sides make an image of 900 MB."""


@click.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.argument("kind", metavar="[KIND]", required=False)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Picture: .png, .pdf or .svg.  [beside FILE]")
@click.option("--variable", help="Variable to draw.  [default: what the study is about]")
@click.option(
    "--along", metavar="AXIS", help="Axis, parameter that follows one, or recorded variable that stands horizontally."
)
@click.option("--by", metavar="AXIS", help="Axis whose values are series, told apart by colour and marker.")
@click.option("--panel", metavar="AXIS", help="Axis with a panel for each value.")
@over_option
@click.option("--at", "points", multiple=True, metavar="AXIS=VALUE,...", help="Hold axes at one value.")
@click.option("--slopes", metavar="P,...", help="Slopes of reference lines of a dependence; 0 for none.")
@click.option("--title", default="", help="Title above the picture; mathematics stands between dollars.")
@click.option("--xlabel", help="Label of the horizontal axes.")
@click.option("--ylabel", help="Label of the vertical axes.")
@click.option("--xscale", help="Scale of the horizontal axes: linear or log.  [default: as the values are]")
@click.option("--yscale", help="Scale of the vertical axes: linear or log.  [default: as the values are]")
@click.option("--size", metavar="WxH", help="Width and height in inches, as 3.4x2.6.")
@click.option(
    "--caption", is_flag=True, help="Small print, counts and long names in a text beside the picture (.txt), not in it."
)
@click.option("--pilot", is_flag=True, help="Draw the pilot's runs.")
def plot(
    file: Path,
    kind: str | None,
    output: Path | None,
    variable: str | None,
    along: str | None,
    by: str | None,
    panel: str | None,
    over: str | None,
    points: tuple[str, ...],
    slopes: str | None,
    title: str,
    xlabel: str | None,
    ylabel: str | None,
    xscale: str | None,
    yscale: str | None,
    size: str | None,
    caption: bool,
    pilot: bool,
) -> None:
    """Draw a result: one KIND of picture, or without one all that fit, and tell what was drawn.

    KIND is distribution, dependence, heat_map, trend, histories, spectrum, rank, comparison or fields.  Every
    picture says on how many of the planned runs it rests.
    """
    from evogt_study.plots.canvas import Look
    from evogt_study.plots.catalogue import Wish, check_kind
    from evogt_study.plots.groups import Places
    from evogt_study.study.case_space import read_point

    check_kind(kind)
    places = Places(along, by, panel, None if over is None else names(over), read_point(",".join(points)))
    look = Look(title, xlabel, ylabel, None if size is None else _size(size), xscale, yscale)
    wish = Wish(variable, places, None if slopes is None else _slopes(slopes), look, notes=not caption)
    data = runs_of_phase(file, "pilot" if pilot else "main")
    for made in draw_files(data, file, kind, wish, output):
        if isinstance(made, str):
            tell(f"evogt: {made}", err=True)
        else:
            tell(f"{made.path}: {made.drawn.title}. {made.drawn.alt}")


def _size(text: str) -> tuple[float, float]:
    """Read width and height in inches.  Raises InputError."""
    try:
        width, height = (float(each) for each in text.split("x"))
        # `not`, to refuse NaN too
        if not (0.5 <= width <= MOST_INCHES and 0.5 <= height <= MOST_INCHES):
            raise ValueError
    except ValueError:
        raise InputError(
            f"`--size` must be width x height in inches up to {MOST_INCHES}, got {text!r}; use e.g. 3.4x2.6"
        ) from None
    return width, height


def _slopes(text: str) -> tuple[float, ...]:
    """Read slopes as numbers; zeros draw no line.  Raises InputError."""
    try:
        slopes = [float(each) for each in names(text)]
        if not all(map(math.isfinite, slopes)):
            raise ValueError
    except ValueError:
        raise InputError(f"`--slopes` must be numbers separated by commas, got {text!r}; use e.g. 1,2") from None
    return tuple(slope for slope in slopes if slope)


class Written(NamedTuple):
    """A figure and its file."""

    path: Path
    drawn: Drawn


def draw_files(
    data: xr.Dataset, result: Path, kind: str | None, wish: kinds.Wish, output: Path | None
) -> Iterator[Written | str]:
    """Draw and write the kind of plot, or all kinds that fit the result; yield each file or a line on an omission.

    The file is `output`, or a PNG beside `result` with the name of the figure added, as with several figures.  Notes
    that the figure does not have go into a text file beside it.  A kind that fits the result but not the wishes
    yields the reason; if no kind is left, the first reason is raised.  Without a variable, a result without a
    solution error yields a line. Raises InputError and ResultError.
    """
    from evogt_study.plots import catalogue as kinds
    from evogt_study.plots.style import FORMATS, encoded

    base = output or result.with_name(f"{result.stem}.png")
    form = base.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise InputError(f"`--output` must end in .{', .'.join(FORMATS)}, got {base.name!r}")
    choices = [(kind, wish)] if kind is not None else _fitting(data, wish)
    if kind is None and wish.variable is None and kinds.lacks_error(data):
        yield f"{kinds.NO_SOLUTION_ERROR}; --variable draws other numbers"
    failed: list[InputError] = []
    for name, its_wish in choices:
        try:
            drawn = kinds.drawn(data, name, its_wish)
        except InputError as error:
            failed.append(error)
            if len(failed) == len(choices):
                raise failed[0] from None
            yield f"{name} is left out: {error}"
            continue
        alone = len(choices) == 1 and output is not None
        path = base if alone else base.with_stem(f"{base.stem}_{drawn.name}")
        write(path, encoded(drawn.figure, form))
        if not its_wish.notes:
            write(path.with_suffix(".txt"), f"{shown(f'{drawn.title}.  {drawn.caption}')}\n".encode())
        yield Written(path, drawn)


def _fitting(data: xr.Dataset, wish: kinds.Wish) -> Sequence[tuple[str, kinds.Wish]]:
    """Return the kinds that fit.  Raises InputError if there is none."""
    from evogt_study.plots import catalogue as kinds

    fitting = kinds.fitting(data, wish)
    if not fitting:
        kinds.drawn(data, "distribution", wish)  # says what is missing
    return [(choice.kind, replace(wish, variable=choice.variable)) for choice in fitting]


def write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all.  Raises ResultError if the disk refuses."""
    from evogt_study.storage.atomic import check_writable, write_file

    check_writable(path)
    write_file(path, content, tidy=True)


@click.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Page to write.  [default: beside FILE]")
def report(file: Path, output: Path | None) -> None:
    """Write one HTML page of a result to share: question, finding, numbers, pictures, failures, commands.

    The page needs nothing else and opens in any browser, without a network and without scripts.
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
