"""The command `evogt reproduce`.  It starts workers before the imports for the computation, which take a second."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study.cli.inputs import (
    PATH,
    Command,
    check_together,
    option,
    quiet_option,
    scheduler_options,
    workers_option,
)
from evogt_study.cli.main import FAILED
from evogt_study.text import print_line, print_text


@click.command(
    cls=Command,
    groups={"Numbers and report": "output published", "Workers": "workers scheduler scheduler_file"},
    short_help="Run the paper's studies and judge each published number.",
)
@click.argument("studies", metavar="[STUDIES]...", nargs=-1, type=PATH)
@option("-o --output", "PATH", "Folder for results and report.", type=PATH, default=Path("results/reproduction"))
@option("--published", "PATH", "Folder of the published numbers.", type=PATH, default=Path("data/published"))
@workers_option
@scheduler_options
@quiet_option
def reproduce(
    studies: tuple[Path, ...],
    output: Path,
    published: Path,
    workers: int | None,
    scheduler: str | None,
    scheduler_file: Path | None,
    quiet: bool,
) -> None:
    """Run the paper's studies and judge each published number.

    STUDIES are files or folders, by default studies/paper.  Exit code 1 if a number differs that is not in the list of
    known differences.
    """
    from evogt_study.cli.run import prestart_workers

    check_together(workers=workers, scheduler=scheduler, scheduler_file=scheduler_file)
    studies = studies or (Path("studies/paper"),)
    prestart_workers(*studies, published, elsewhere=bool(scheduler or scheduler_file))
    from evogt_study.cli.display import show_progress
    from evogt_study.paper.report import summarise, to_terminal
    from evogt_study.paper.run import read_studies, write_reproduction
    from evogt_study.paper.run import reproduce as run_and_judge
    from evogt_study.workers.clusters import connect_to_scheduler
    from evogt_study.workers.options import RunOptions
    from evogt_study.workers.signals import handle_signals

    found = read_studies(studies)
    with handle_signals(), connect_to_scheduler(scheduler, scheduler_file) as client, show_progress(quiet) as listener:
        made = run_and_judge(found, published, output, client=client, options=RunOptions(workers), listener=listener)
    print_text(to_terminal(made.entries))
    for path in write_reproduction(made, output):
        print_line(path)
    print_line(f"{made.runs} runs, {made.runs_not_ok} not ok; {summarise(made.entries)}")
    if made.not_computed:
        print_line(f"{made.not_computed} published numbers belong to studies that were not given")
    if not made.holds:
        raise SystemExit(FAILED)
