"""The command `evogt reproduce`, once its workers are starting."""

from __future__ import annotations

from pathlib import Path

from evogt_study.cli.exit_codes import SOME_FAILED
from evogt_study.cli.progress_display import display
from evogt_study.paper.reproduction_report import summary_line, terminal_table
from evogt_study.paper.reproduction_run import reproduce, studies_at, write_report
from evogt_study.printable import tell, tell_lines
from evogt_study.workers.interruption import interruptible
from evogt_study.workers.local_cluster import remote


def reproduce_paper(
    studies: tuple[Path, ...],
    published: Path,
    output: Path,
    *,
    workers: int | None,
    scheduler: str | None,
    scheduler_file: Path | None,
    quiet: bool,
) -> None:
    """Run the studies, judge each published number, write the report and print its table."""
    found = studies_at(studies)
    with interruptible(), remote(scheduler, scheduler_file) as client, display(quiet) as listener:
        made = reproduce(found, published, output, client=client, workers=workers, listener=listener)
    tell_lines(terminal_table(made.entries))
    for path in write_report(made, output):
        tell(path)
    tell(f"{made.runs} runs, {made.runs_not_ok} not ok; {summary_line(made.entries)}")
    if made.not_computed:
        tell(f"{made.not_computed} published numbers belong to studies that were not given")
    if not made.holds:
        raise SystemExit(SOME_FAILED)
