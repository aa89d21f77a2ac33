"""The command `evogt report`."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study.analysis.plots.plot_files import write
from evogt_study.analysis.report.report import report as page
from evogt_study.cli.chosen_runs import runs_so_far
from evogt_study.errors import InputError
from evogt_study.printable import tell
from evogt_study.results.netcdf import with_numbers


@click.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Page to write.  [default: beside FILE]")
def report(file: Path, output: Path | None) -> None:
    """Write one HTML page of a result to share: question, numbers, pictures, failures, and how to compute it again.

    The page needs nothing else and opens in any browser, without a network.
    """
    path = output or file.with_suffix(".html")
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"`--output` must end in .html, got {path.name!r}")
    with runs_so_far(file) as runs:
        made = page(file, {phase: with_numbers(data) for phase, data in runs.items()})
    write(path, made.encode())
    tell(path)
