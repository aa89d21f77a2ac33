"""The command `evogt plot`."""

from __future__ import annotations

import math
from pathlib import Path

import click

from evogt_study.cli.chosen_runs import runs_of_phase
from evogt_study.cli.options import names, over_option
from evogt_study.cli.plot_files import draw_files
from evogt_study.errors import InputError
from evogt_study.plots.canvas import Look
from evogt_study.plots.catalogue import Wish, check_kind
from evogt_study.plots.groups import Places
from evogt_study.study.case_space import read_point
from evogt_study.text import tell

MOST_INCHES = 50
"""Of a picture's side: at 300 dots an inch 15,000, which an image of 900 MB has."""


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
    size: str | None,
    caption: bool,
    pilot: bool,
) -> None:
    """Draw a result: one KIND of picture, or without one all that fit, and tell what was drawn.

    KIND is distribution, dependence, heat_map, trend, histories, spectrum, rank, verdict or fields.  Every picture says
    on how many of the planned runs it rests.
    """
    check_kind(kind)
    places = Places(along, by, panel, None if over is None else names(over), read_point(",".join(points)))
    look = Look(title, xlabel, ylabel, None if size is None else _size(size))
    wish = Wish(variable, places, None if slopes is None else _slopes(slopes), look, notes=not caption)
    data = runs_of_phase(file, "pilot" if pilot else "study")
    for made in draw_files(data, file, kind, wish, output):
        if isinstance(made, str):
            tell(f"evogt: {made}", err=True)
        else:
            tell(f"{made.path}: {made.drawn.title}. {made.drawn.alt}")


def _size(text: str) -> tuple[float, float]:
    """Width and height in inches.  Raises InputError."""
    try:
        width, height = (float(each) for each in text.split("x"))
        # `not`, so that NaN is refused too
        if not (0.5 <= width <= MOST_INCHES and 0.5 <= height <= MOST_INCHES):
            raise ValueError
    except ValueError:
        raise InputError(
            f"`--size` must be width x height in inches up to {MOST_INCHES}, got {text!r}; use e.g. 3.4x2.6"
        ) from None
    return width, height


def _slopes(text: str) -> tuple[float, ...]:
    """Slopes as numbers; those of zero are no lines.  Raises InputError."""
    try:
        slopes = [float(each) for each in names(text)]
        if not all(map(math.isfinite, slopes)):
            raise ValueError
    except ValueError:
        raise InputError(f"`--slopes` must be numbers separated by commas, got {text!r}; use e.g. 1,2") from None
    return tuple(slope for slope in slopes if slope)
