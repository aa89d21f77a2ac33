"""The command `evogt report`."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study.cli.reporting import check_page, write_report
from evogt_study.text import tell


@click.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Page to write.  [default: beside FILE]")
def report(file: Path, output: Path | None) -> None:
    """Write one HTML page of a result to share: question, finding, numbers, pictures, failures, commands.

    The page needs nothing else and opens in any browser, without a network and without scripts.
    """
    # "." and the like have no name, and are refused where they are read
    path = output or (file.with_suffix(".html") if file.name else Path("report.html"))
    check_page(path, "--output")
    write_report(file, path)
    tell(path)
