"""The command `evogt run`.

A complete result is recognised, and workers are started, before what computing needs is imported, which takes a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from evogt_study import cli
from evogt_study.cli.options import check_one_of, from_option, result_option, study_file_argument
from evogt_study.cli.run_options import RunOptions
from evogt_study.cli.workers_ahead import workers_ahead
from evogt_study.operations.complete import complete_result


@click.command()
@study_file_argument
@result_option
@click.option("--workers", type=click.IntRange(1), help="Worker processes on this machine.  [default: its cores]")
@click.option("--scheduler", metavar="ADDRESS", help="Address of a running Dask scheduler to use instead.")
@click.option(
    "--scheduler-file", type=click.Path(path_type=Path), help="File in which a Dask scheduler left its address."
)
@click.option(
    "--cluster", metavar="SYSTEM", help="Batch system for --workers jobs: slurm, pbs, sge or lsf (extra hpc)."
)
@click.option("--retry-failed", is_flag=True, help="Run cases again that failed, took too long or were lost before.")
@click.option("--rerun-outdated", is_flag=True, help="Run cases again that other versions of the software computed.")
@click.option("--run-limit", type=float, metavar="SECONDS", help="Time limit of each run.")
@click.option("--max-failures", type=click.IntRange(0), metavar="N", help="Stop after more than N failed runs.")
@click.option(
    "--time-limit", metavar="TIME", help="Stop after this time and keep what is finished: 90, 30m, 11h30m, 2d."
)
@from_option
@click.option(
    "--keep-old-code", is_flag=True, help="Take runs of your own method's former code: you say they are the same."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def run(study_file: Path, output: Path | None, **given: Any) -> None:
    """Compute what is missing of a study and write its result.

    Finished runs are taken wherever they lie: in the result and its store, in other results of its folder, and in
    --from.  What the study does not ask for any more is kept in the store, which `evogt store list` shows.
    """
    options = RunOptions(**given)
    elsewhere = (options.scheduler, options.scheduler_file, options.cluster)
    check_one_of(options.workers if options.cluster is None else None, *elsewhere)  # of a cluster, how many jobs
    path = complete_result(study_file, output) if options.leave_a_complete_result else None
    if path is not None:
        cli.print_result(path, quiet=options.quiet)
        return
    workers_ahead(study_file, elsewhere=any(elsewhere))
    cli.run_study(study_file, output, options)
