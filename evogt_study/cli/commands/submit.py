"""The command `evogt submit`."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study import cli
from evogt_study.cli.options import result_option, study_file_argument
from evogt_study.text import tell, tell_lines
from evogt_study.workers.batch_systems import job_script, make_jobs_folder, submitted


@click.command()
@study_file_argument
@result_option
@click.option("--tasks", type=click.IntRange(1), required=True, help="Tasks of the array.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Worker processes of a task.")
@click.option("--cluster", metavar="SYSTEM", default="slurm", show_default=True, help="slurm, pbs, sge or lsf.")
@click.option("--directive", "directives", multiple=True, metavar="TEXT", help="A line for it, as --time=4:00:00.")
@click.option("--print", "prints", is_flag=True, help="Print the script, and do not submit it.")
def submit(
    study_file: Path,
    output: Path | None,
    tasks: int,
    workers: int,
    cluster: str,
    directives: tuple[str, ...],
    prints: bool,
) -> None:
    """Submit an array of tasks that compute a study without a scheduler, each of them `evogt work`.

    What tasks print goes into the folder RESULT.jobs, which is made.  The same command again computes what is missing.
    """
    path = cli.result_of(cli.read_study(study_file), output)
    # first, since it refuses a system or a directive before anything is made
    script = job_script(cluster, study_file, path, tasks, workers=workers, directives=directives)
    # before any task starts: SLURM does not make the folder that their output goes to
    make_jobs_folder(path)
    if prints:
        tell_lines(script.rstrip("\n"))
    else:
        tell(submitted(cluster, script))
