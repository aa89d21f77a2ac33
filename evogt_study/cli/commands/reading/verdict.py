"""The command `evogt verdict`."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study.analysis.statistics import IncompleteWarning
from evogt_study.analysis.summary_table import select_runs, verdict_lines
from evogt_study.analysis.verdict import verdict as judged
from evogt_study.cli.chosen_runs import runs_of_phase
from evogt_study.cli.messages import warn, warnings_at_the_end
from evogt_study.cli.options import names
from evogt_study.errors import InputError
from evogt_study.inference.intervals import Interval
from evogt_study.schema.variables import doubts
from evogt_study.study.case_space import read_point
from evogt_study.text import tell_lines


@click.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.argument("axis", metavar="AXIS")
@click.option("--over", default="seed", show_default=True, help="Axes whose points are the sample.")
@click.option("--variable", default="error", show_default=True, help="Variable to judge by.")
@click.option("--at", "points", multiple=True, metavar="AXIS=VALUE,...", help="Only these labels.")
@click.option("--better", default="lower", show_default=True, help="lower or higher values.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of all pairs of a cell together.")
@click.option("--units", help="Of --over the axes that are drawn: their pooled values belong together.  [seed]")
def verdict(
    file: Path, axis: str, over: str, variable: str, points: tuple[str, ...], better: str, confidence: float,
    units: str | None,
) -> None:  # fmt: skip
    """Say which label of AXIS is best, as `evogt verdict FILE.nc dictionary`, and how sure that is.

    Ratios of means of all pairs have intervals that hold together.
    """
    data = runs_of_phase(file, "study")
    if variable not in data.data_vars:
        raise InputError(f"`--variable` must be one of {', '.join(map(str, data.data_vars))}, got {variable!r}")
    at = read_point(",".join(points))
    with warnings_at_the_end(IncompleteWarning):
        found = judged(
            select_runs(data[variable], at), axis, names(over), better=better, interval=Interval(confidence=confidence),
            units=None if units is None else names(units), planned=select_runs(data["case_key"], at),
            seconds=select_runs(data["wall_seconds"], at),
        )  # fmt: skip
        tell_lines(verdict_lines(found))
    warn(doubts(data))
