"""The command `evogt reproduce`.

Workers are started before what computing needs is imported, which takes a second.
"""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study import cli
from evogt_study.cli.options import check_one_of
from evogt_study.cli.workers_ahead import workers_ahead


@click.command()
@click.argument("studies", metavar="[STUDIES]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("results/reproduction"),
    show_default=True,
    help="Folder for results and report.",
)
@click.option(
    "--published",
    type=click.Path(path_type=Path),
    default=Path("data/published"),
    show_default=True,
    help="Folder of the published numbers.",
)
@click.option("--workers", type=click.IntRange(1), help="Worker processes on this machine.  [default: its cores]")
@click.option("--scheduler", metavar="ADDRESS", help="Address of a running Dask scheduler to use instead.")
@click.option(
    "--scheduler-file", type=click.Path(path_type=Path), help="File in which a Dask scheduler left its address."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def reproduce(
    studies: tuple[Path, ...],
    output: Path,
    published: Path,
    workers: int | None,
    scheduler: str | None,
    scheduler_file: Path | None,
    quiet: bool,
) -> None:
    """Run the paper's STUDIES (files or folders; default: studies/paper) and judge each published number.

    Exit code 1 where a number differs that is not on the list of known differences.
    """
    check_one_of(workers, scheduler, scheduler_file)
    studies = studies or (Path("studies/paper"),)
    workers_ahead(*studies, published, elsewhere=bool(scheduler or scheduler_file))
    cli.reproduce_paper(
        studies, published, output, workers=workers, scheduler=scheduler, scheduler_file=scheduler_file, quiet=quiet
    )
