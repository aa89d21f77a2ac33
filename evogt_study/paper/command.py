"""The command `evogt reproduce`.  It starts workers before the imports for the computation, which take a second."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from evogt_study.paper.published import Results


@click.command(
    cls=Command,
    groups={"Numbers and report": "output published board", "Workers": "workers scheduler scheduler_file"},
    short_help="Run the paper's studies and judge each published number.",
)
@click.argument("studies", metavar="[STUDIES]...", nargs=-1, type=PATH)
@option(
    "-o --output", "PATH", "Folder for results and report.  [default: results/reproduction or results/board]", type=PATH
)
@option("--published", "PATH", "Folder of the published numbers.", type=PATH, default=Path("data/published"))
@option("--board", "", "Run studies/board: problems published by others, by many methods.")
@workers_option
@scheduler_options
@quiet_option
def reproduce(
    studies: tuple[Path, ...],
    output: Path | None,
    published: Path,
    workers: int | None,
    scheduler: str | None,
    scheduler_file: Path | None,
    board: bool,
    quiet: bool,
) -> None:
    """Run the paper's studies and judge each published number.

    STUDIES are files or folders, by default studies/paper.  Exit code 1 if a number differs that is not in the list of
    known differences.  With --board, the default is studies/board, and the command writes a table of all methods.
    """
    from evogt_study.cli.run import prestart_workers

    check_together(workers=workers, scheduler=scheduler, scheduler_file=scheduler_file)
    studies = studies or (Path("studies/board" if board else "studies/paper"),)
    output = output or Path("results/board" if board else "results/reproduction")
    prestart_workers(*studies, published, elsewhere=bool(scheduler or scheduler_file))
    from evogt_study.cli.display import show_progress
    from evogt_study.paper.board import check_board
    from evogt_study.paper.report import summarise, to_terminal
    from evogt_study.paper.run import read_studies, run_studies, write_reproduction
    from evogt_study.paper.run import reproduce as run_and_judge
    from evogt_study.workers.clusters import connect_to_scheduler
    from evogt_study.workers.options import RunOptions
    from evogt_study.workers.signals import handle_signals

    found = read_studies(studies)
    with handle_signals(), connect_to_scheduler(scheduler, scheduler_file) as client, show_progress(quiet) as listener:
        given: Any = {"client": client, "options": RunOptions(workers), "listener": listener}
        if board:
            check_board(published)
            results = run_studies(found, output, **given)
        else:
            made = run_and_judge(found, published, output, **given)
    if board:
        _write_board(results, published, output)
        return
    print_text(to_terminal(made.entries))
    for path in write_reproduction(made, output):
        print_line(path)
    print_line(f"{made.runs} runs, {made.runs_not_ok} not ok; {summarise(made.entries)}")
    if made.not_computed:
        print_line(f"{made.not_computed} published numbers belong to studies that were not given")
    if not made.holds:
        raise SystemExit(FAILED)


def _write_board(results: Results, published: Path, output: Path) -> None:
    """Write and print the tables of the board.  Exit with 1 if a run failed."""
    from evogt_study.analysis.tables import render_table
    from evogt_study.paper.board import SUMMARY, read_board, summarise_board, write_board
    from evogt_study.paper.run import count_failures

    rows = read_board(published, results)
    print_text(render_table(SUMMARY, summarise_board(rows), "text"))
    for path in write_board(rows, output):
        print_line(path)
    runs, not_ok = count_failures(results)
    print_line(f"{runs} runs, {not_ok} not ok")
    if not_ok:
        raise SystemExit(FAILED)
