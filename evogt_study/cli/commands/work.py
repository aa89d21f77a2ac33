"""The command `evogt work`."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study import cli
from evogt_study.cli.options import from_option, part_of, result_option, study_file_argument
from evogt_study.text import tell


@click.command()
@study_file_argument
@result_option
@click.option("--part", required=True, metavar="I/N", help="This task, the I-th of N, counted from 1.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Worker processes of this task.")
@click.option("--run-limit", type=float, metavar="SECONDS", help="Time limit of each run.")
@click.option("--time-limit", metavar="TIME", help="Stop after this time and leave the rest: 90, 30m, 11h30m, 2d.")
@from_option
@click.option("-q", "--quiet", is_flag=True, help="Tell nothing.")
def work(
    study_file: Path,
    output: Path | None,
    part: str,
    workers: int,
    run_limit: float | None,
    time_limit: str | None,
    others: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Compute what no other task of an array has claimed, in a folder that all of them see.

    No scheduler is needed: tasks claim parts of the study by files beside the result, and take over those of tasks that
    are gone.  The last one writes the result; where it does not come to that, `evogt run` does, and computes the rest.
    """
    number, of = part_of(part)
    cli.work_on(
        study_file, output, number, of, workers=workers, run_limit=run_limit, time_limit=time_limit, others=others,
        told=(lambda line: None) if quiet else (lambda line: tell(line, err=True)),
    )  # fmt: skip
