"""The command `evogt status`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
import xarray as xr

from evogt_study.analysis.completeness import completeness
from evogt_study.cli import result_display
from evogt_study.cli.chosen_runs import no_result, runs_so_far
from evogt_study.cli.chosen_study import print_unasked, read_study, result_of
from evogt_study.cli.messages import print_lines, tell_unfinished
from evogt_study.cli.options import from_option
from evogt_study.errors import InputError
from evogt_study.printable import tell
from evogt_study.results.finished_runs import finished


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Result of a STUDY.toml.  [default: results/NAME.nc]"
)
@from_option
def status(file: Path, output: Path | None, others: tuple[Path, ...]) -> None:
    """Tell what is done, failed and missing of a result FILE.nc, or of what a STUDY.toml asks for.

    Of a study it is told what `evogt run` would find: cases that were added to it are not_run.
    """
    if file.suffix != ".toml":
        for option in ["--output"] * (output is not None) + ["--from"] * bool(others):
            raise InputError(f"`{option}` must be given with a STUDY.toml, got the result {file}")
        with runs_so_far(file, ()) as runs:
            _print_status(file, runs)
        return

    study = read_study(file)
    path = result_of(study, output)
    done = finished(study, path, others=others)
    if done is None:
        raise no_result(path)
    tell_unfinished(path)
    _print_status(path, done.runs())
    for phase in study.phases:
        if phase.name not in done.tables:
            tell(f"{path} ({phase.name}): not run, since its {next(iter(done.tables))} has not chosen yet")
    print_unasked(path, done)


def _print_status(path: Path, phases: Mapping[str, xr.Dataset]) -> None:
    """Print what became of the runs of each phase."""
    for phase, data in phases.items():
        found = completeness(data)
        tell(f"{path} ({phase}): {result_display.counted(found)}")
        print_lines(result_display.lacking(found))
        print_lines(result_display.messages(found))
        print_lines(result_display.software(data))
