"""The commands `evogt run`, `submit`, `plan` and `try`.

`evogt run` recognises a complete result, and starts workers, before the imports for the computation, which take a
second.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evogt_study.cli.display import display, print_result, warnings_at_the_end
from evogt_study.cli.inputs import (
    check_one_of,
    print_unasked,
    read_study,
    result_of,
    result_option,
    reuse_from_option,
    run_options,
    study_file_argument,
    task_of,
)
from evogt_study.cli.main import SOME_FAILED
from evogt_study.errors import InputError, JobsWarning, ReturnWarning, StoreWarning
from evogt_study.operations.complete import complete_result
from evogt_study.storage.paths import jobs_folder
from evogt_study.text import tell, tell_lines
from evogt_study.workers.options import RunOptions
from evogt_study.workers.runner import prestart

if TYPE_CHECKING:
    from distributed import Client

    from evogt_study.results.finished import Finished
    from evogt_study.results.table import Table
    from evogt_study.study.phases import Precision
    from evogt_study.study.plan import Order, Plan


@click.command()
@study_file_argument
@result_option
@run_options
@click.option("--scheduler", metavar="ADDRESS", help="Address of a running Dask scheduler to use instead.")
@click.option(
    "--scheduler-file", type=click.Path(path_type=Path), help="File in which a Dask scheduler left its address."
)
@click.option(
    "--cluster", metavar="SYSTEM", help="Batch system for --workers jobs: slurm, pbs, sge or lsf (extra hpc)."
)
@click.option(
    "--task", metavar="I/N", help="Be task I of N of an array: run what no other task has claimed, without a scheduler."
)
@click.option("--time-limit", metavar="TIME", help="Stop after this time and keep finished runs: 90, 30m, 11h30m, 2d.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def run(
    study_file: Path,
    output: Path | None,
    scheduler: str | None,
    scheduler_file: Path | None,
    cluster: str | None,
    task: str | None,
    time_limit: str | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Run the missing cases of a study and write the result file.

    Finished runs are reused from the result and its store, other results of its folder, and --reuse-from.  Runs that
    the study no longer includes are kept in the store: see `evogt store list`.

    With --task, several tasks that see one folder compute the study together: each claims parts of it by files beside
    the result, and takes over the parts of tasks that are gone.  The last task writes the result.
    """
    options = RunOptions(**given)
    elsewhere = (scheduler, scheduler_file, cluster)
    check_one_of(options.workers if cluster is None else None, *elsewhere)  # of a cluster, how many jobs
    if task is not None:
        _run_task(study_file, output, task, options, time_limit, quiet)
        return
    if not (options.retry_failed or options.rerun_outdated or any(elsewhere) or time_limit):
        path = complete_result(study_file, output)
        if path is not None:
            print_result(path, quiet=quiet)
            return
    workers_ahead(study_file, elsewhere=any(elsewhere) or options.workers == 0)
    _run_study(study_file, output, options, elsewhere, time_limit, quiet)


def workers_ahead(*paths: Path, elsewhere: bool = False) -> None:
    """Start a runner on this machine, which imports while this process does, unless a path is missing."""
    if not elsewhere and all(path.exists() for path in paths):
        prestart()


def _run_study(
    study_file: Path,
    output: Path | None,
    options: RunOptions,
    elsewhere: tuple[str | None, Path | None, str | None],
    time_limit: str | None,
    quiet: bool,
) -> None:
    """Run the missing cases of a study, write its result, and print its runs by status."""
    from evogt_study.operations.run import run_to_file
    from evogt_study.workers.signals import interruptible

    study = read_study(study_file)
    path = result_of(study, output)
    print_line = _print_nothing if quiet else partial(tell, err=True)
    clients = _clients(*elsewhere, options, path, print_line)
    warned = warnings_at_the_end(StoreWarning, JobsWarning, ReturnWarning)
    # exits from right to left: the bar ends, clients close while signals are still handled, warnings come last
    with warned, interruptible(time_limit), clients as client, display(quiet) as listener:
        run_to_file(study, path, client=client, options=options, listener=listener, print_line=print_line)
    print_result(path)


def _print_nothing(line: str) -> None:
    pass


def _clients(
    scheduler: str | None,
    scheduler_file: Path | None,
    cluster: str | None,
    options: RunOptions,
    result: Path,
    print_line: Callable[[str], None],
) -> AbstractContextManager[Client | None]:
    """Return the client of a scheduler or batch system, or None for workers on this machine.  Raises InputError."""
    if cluster is None and scheduler is None and scheduler_file is None:
        return nullcontext()
    from evogt_study.workers.batch_systems import on_batch_system
    from evogt_study.workers.clusters import connect_to_scheduler

    if cluster is None:
        return connect_to_scheduler(scheduler, scheduler_file)
    if not options.workers:
        raise InputError("`--workers` must be given with --cluster: the number of worker processes to ask for")
    return on_batch_system(cluster, options.workers, jobs_folder(result), print_line)


def _run_task(
    study_file: Path, output: Path | None, task: str, options: RunOptions, time_limit: str | None, quiet: bool
) -> None:
    """Compute parts of a study as one task of an array, and write the result if all runs are finished."""
    number, of = task_of(task)
    from evogt_study.operations.run import run_task
    from evogt_study.workers.signals import winding_down

    study = read_study(study_file)
    path = result_of(study, output)
    print_line = _print_nothing if quiet else partial(tell, err=True)
    with warnings_at_the_end(StoreWarning, ReturnWarning), winding_down(time_limit) as check_end:
        whole = run_task(study, path, number, of, options=options, print_line=print_line, check_end=check_end)
    if whole:
        print_line(f"{path}: all runs are there")


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
    """Submit an array of tasks that compute a study without a scheduler, each of them `evogt run --task`.

    What tasks print goes into the folder RESULT.jobs, which is made.  The same command again computes what is missing.
    """
    from evogt_study.workers.batch_systems import job_script, make_jobs_folder, submitted

    path = result_of(read_study(study_file), output)
    # first: it refuses a system or a directive before anything is written
    script = job_script(cluster, study_file, path, tasks, workers=workers, directives=directives)
    # before any task starts: SLURM does not make the folder of their output
    make_jobs_folder(path)
    if prints:
        tell_lines(script.rstrip("\n"))
    else:
        tell(submitted(cluster, script))


@click.command()
@study_file_argument
@result_option
@click.option("--workers", type=click.IntRange(1), help="Worker processes to predict for.  [default: the cores]")
@reuse_from_option
def plan(study_file: Path, output: Path | None, workers: int | None, reuse_from: tuple[Path, ...]) -> None:
    """Tell what would run: cases, shared work, and how long and how much memory it takes.  Writes nothing.

    Of cases that are finished it is told how many, and where; all else is about those that are missing.  Times are
    predicted from a few cases of different sizes, which are computed for that within a few seconds.
    """
    from dask.system import CPU_COUNT

    from evogt_study.operations.forecast import START_SECONDS
    from evogt_study.results.finished import finished
    from evogt_study.study.phases import in_words
    from evogt_study.study.plan import provisional_plans

    # the count of Dask, as in `evogt run`: it respects the limits of a container
    study, workers = read_study(study_file), workers or CPU_COUNT
    path = result_of(study, output)
    done = finished(study, path, others=reuse_from)
    tell(f"study {study.name}" + (f": {study.title}" if study.title else ""))
    walls = []
    for phase, plan in zip(study.phases, provisional_plans(study), strict=True):
        known_to = None if done is None else done.tables.get(phase.name)
        walls.append(_print_plan(plan if known_to is None else known_to.plan, workers, done))
        if phase.precision is not None:
            tell(f"    {_expected(phase.precision, plan if known_to is None else known_to)}")
        if phase.choice is not None:
            tell(f"then, with `{in_words(phase.choice.parameters)}` chosen by the {phase.name}:")
    print_unasked(path, done)
    known = [wall for wall in walls if wall is not None]
    if not any(walls) and len(known) == len(walls):
        tell("nothing of this is left to compute")
    elif len(known) < len(walls):
        tell("only running it tells how long that takes")
    else:
        wall, start = _duration(START_SECONDS + sum(known)), _duration(START_SECONDS)
        tell(f"in all about {wall} with --workers {workers}, on free cores like this machine's: {start} are start-up")


def _print_plan(plan: Plan, workers: int, done: Finished | None) -> float | None:
    """Print the work of one phase; return its predicted wall seconds, or None if they are unknown."""
    from evogt_study.operations.forecast import predicted, worker_memory
    from evogt_study.study.plan import OWN, shared_work

    axes = " x ".join(f"{len(axis.values)} {axis.name}" for axis in plan.space.axes)
    holes = "" if plan.count == plan.space.size else f" of {plan.space.size:,} points"
    runs = plan.runs
    same = "" if len(runs) == plan.count else f", of which {len(runs):,} are different runs"
    tell(f"  {plan.phase}: {plan.count:,} cases{holes} = {axes}{same}")
    missing = _print_finished(plan, done)
    if missing is None and same:
        missing = runs
    if missing is not None and not len(missing):
        return 0.0
    shared = shared_work(plan, numbers=missing)
    for work in shared:
        if work.stage == OWN:
            continue
        whole = work.cases == (plan.count if missing is None else len(missing))
        sample = "" if whole else f" (among the first {work.cases:,})"
        share = f"{work.distinct / work.cases:.0%} of the cases{sample}"
        tell(f"    {work.stage:<21} computed {work.distinct:>8,} times, {share}")  # 21: of "coefficient reference"
    tell("    in batches of about a second of work, sized as runs are timed")
    made = predicted(plan, shared, numbers=missing)
    if made is not None:
        tell(f"    about {_duration(made.seconds)} of work, {_duration(made.longest)} for the longest run")
    memory = worker_memory(plan)
    if memory:
        tell(f"    about {memory / 2**20:.0f} MiB of memory for each worker")
    return None if made is None else made.wall(workers)


def _expected(precision: Precision, known: Plan | Table) -> str:
    """Describe the number of runs for a target precision, estimated from finished runs."""
    from evogt_study.results.decisions import decisions
    from evogt_study.results.table import Table

    goal = precision.goal
    width = f"{100.0 * goal.half_width:g} %" if goal.relative else f"{goal.half_width:g}"
    what = f"{goal.statistic} of {precision.variable} to a half width of {width}"
    if not isinstance(known, Table) or not (made := decisions(precision, known)):
        return (
            f"then seeds until the {what} is known in each cell, at most {goal.max_seeds:,}; no run tells how many yet"
        )
    done, expected = sum(bool(each.reason) for each in made.values()), sum(each.expected for each in made.values())
    return f"about {expected:,} runs expected for the {what}; {done:,} of {len(made):,} cells have all of theirs"


def _print_finished(plan: Plan, done: Finished | None) -> Order | None:
    """Print how many cases of a phase are finished; return the numbers of the others, or None if none is finished."""
    count = None if done is None else done.count(plan.phase)
    if done is None or count is None:
        return None
    places = done.reader.places(plan.phase)
    tell(f"    {count:,} of {plan.count:,} are finished" + (f": {places}" if places else ""))
    return done.tables[plan.phase].missing() if count else None


# a unit is used from 1.5 of it on: 80 s is more precise than 1.3 min
def _duration(seconds: float) -> str:
    """Return a time in a suitable unit, with two or more digits."""
    units = (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3))
    unit, length = next((entry for entry in units if seconds >= 1.5 * entry[1]), units[-1])
    number = seconds / length
    return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"


@click.command("try")
@study_file_argument
@click.option("--at", "points", multiple=True, metavar="AXIS=VALUE,...", help="The case.  [default: the first]")
def try_case(study_file: Path, points: tuple[str, ...]) -> None:
    """Compute one case of a study here, and print what it returns; a traceback where it raises.  Writes nothing.

    Axes that --at leaves out have their first value.  Exit code 1 where the case fails.
    """
    from evogt_study.operations.replay import tried
    from evogt_study.study.case_space import read_point

    made = tried(read_study(study_file), read_point(",".join(points)))
    for line in made.describe():
        tell(line)
    if made.raised:
        tell_lines(made.raised.rstrip("\n"), err=True)
        raise SystemExit(SOME_FAILED)
