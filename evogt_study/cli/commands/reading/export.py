"""The command `evogt export`."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study.analysis.export import write_table
from evogt_study.cli.chosen_runs import runs_of_phase
from evogt_study.errors import InputError
from evogt_study.text import tell


@click.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", metavar="TABLE", required=True, type=click.Path(path_type=Path), help="New .csv or .parquet file."
)
@click.option("--pilot", is_flag=True, help="The pilot's runs.")
@click.option("--spreadsheet", is_flag=True, help="CSV that no spreadsheet computes: ' before text like a formula.")
def export(file: Path, output: Path, pilot: bool, spreadsheet: bool) -> None:
    """Write the runs as a flat table: one row a point, with parameters, status by name, message and numbers.

    Text of a result can begin like a formula (=, +, -, @), which spreadsheets compute: for them use --spreadsheet.
    Parquet needs pandas and pyarrow (extra parquet).
    """
    if output.exists():
        raise InputError(f"`--output` must be a new file, got {output}, which exists; choose another place with -o")
    count = write_table(runs_of_phase(file, "pilot" if pilot else "study"), output, spreadsheet=spreadsheet)
    tell(f"{output}: {count} runs")
