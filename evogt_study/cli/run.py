"""The commands `evogt run`, `try` and `submit`.

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

from evogt_study.cli.display import display, print_json, print_lines, print_result, tell_unfinished, warnings_at_the_end
from evogt_study.cli.inputs import (
    PATH,
    AxisValues,
    Command,
    assignments_argument,
    check_together,
    code_option,
    json_option,
    pilot_option,
    print_unasked,
    read_assignments,
    read_study,
    refuse_options,
    result_of,
    result_option,
    run_options,
    strict_option,
    study_file_argument,
    task_of,
)
from evogt_study.cli.main import FAILED
from evogt_study.errors import InputError, JobsWarning, ReturnWarning, StoreWarning
from evogt_study.operations.complete import complete_result
from evogt_study.storage.paths import jobs_folder
from evogt_study.text import tell, tell_lines
from evogt_study.workers.options import RunOptions
from evogt_study.workers.runner import prestart

if TYPE_CHECKING:
    from distributed import Client

    from evogt_study.results.finished import FinishedRuns
    from evogt_study.results.table import Table
    from evogt_study.study.phases import Precision
    from evogt_study.study.plan import Order, Plan
    from evogt_study.study.study import Study

PrintLine = Callable[[str], None]


@click.command(
    cls=Command,
    groups={
        "Result and reuse": "output reuse_from reuse_old_code retry_failed rerun_outdated",
        "Workers and clusters": "workers memory_limit cluster scheduler scheduler_file task",
        "Limits": "run_timeout max_failures time_limit",
    },
)
@study_file_argument
@assignments_argument
@result_option
@run_options
@click.option(
    "--cluster", metavar="SYSTEM", help="Submit jobs to slurm, pbs, sge or lsf.  Needs the extra `hpc` and --workers."
)
@click.option("--scheduler", metavar="ADDRESS", help="Use a running Dask scheduler, such as tcp://host:8786.")
@click.option("--scheduler-file", type=PATH, help="Use the Dask scheduler whose address is in this file.")
@click.option("--task", metavar="I/N", help="Run as task I of N of an array.  Tasks need only a common folder.")
@click.option(
    "--time-limit",
    metavar="TIME",
    help="Stop after this time and keep finished runs.  Use 90 (seconds), 30m, 11h30m or 2d.",
)
@click.option("-n", "--dry-run", is_flag=True, help="Print the cases, the time and the memory.  Write nothing.")
@strict_option
@json_option
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def run(
    study_file: Path,
    assignments: tuple[str, ...],
    output: Path | None,
    cluster: str | None,
    scheduler: str | None,
    scheduler_file: Path | None,
    task: str | None,
    time_limit: str | None,
    dry_run: bool,
    strict: bool,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Run the missing cases of a study and write the result file.

    KEY=VALUE changes the study: a=5 sets a constant, n=10,20 or seed=0..99 an axis.

    Finished runs are reused.  They are looked up in the result file, its store, the other results in the same folder
    and the places named by --reuse-from.  Runs that are no longer part of the study move to the store; see `evogt
    store`.
    """
    if dry_run:
        refuse_options("--dry-run", allowed="dry_run output reuse_from workers as_json")
    options = RunOptions(**given)
    check_together(cluster=cluster, scheduler=scheduler, scheduler_file=scheduler_file, task=task)
    if cluster is None:  # of a cluster, the number of its workers
        check_together(workers=options.workers, scheduler=scheduler, scheduler_file=scheduler_file)
    elsewhere = (scheduler, scheduler_file, cluster)
    is_plain = not (assignments or task or dry_run or options.retry_failed or options.rerun_outdated or time_limit)
    if is_plain and not any(elsewhere) and (path := complete_result(study_file, output)) is not None:
        print_result(path, quiet=quiet, strict=strict, as_json=as_json)
        return
    if not (task or dry_run):
        workers_ahead(study_file, elsewhere=any(elsewhere) or options.workers == 0)
    study = read_study(study_file, assignments)
    path = result_of(study, output)
    print_line: PrintLine = _print_nothing if quiet else partial(tell, err=True)
    if dry_run:
        _print_forecast(study, path, options, as_json)
    elif task is None:
        _run_study(study, path, options, _clients(*elsewhere, options, path, print_line), time_limit, quiet, print_line)
        print_result(path, strict=strict, as_json=as_json)
    elif _run_task(study, path, task, options, time_limit, print_line):
        print_result(path, strict=strict, as_json=as_json)
    elif as_json:
        print_json({"result": str(path), "complete": False, "phases": {}})


def workers_ahead(*paths: Path, elsewhere: bool = False) -> None:
    """Start a runner on this machine, which imports while this process does, unless a path is missing."""
    if not elsewhere and all(path.exists() for path in paths):
        prestart()


def _run_study(
    study: Study,
    path: Path,
    options: RunOptions,
    clients: AbstractContextManager[Client | None],
    time_limit: str | None,
    quiet: bool,
    print_line: PrintLine,
) -> None:
    """Run the missing cases of a study and write its result."""
    from evogt_study.operations.run import run_to_file
    from evogt_study.workers.signals import handle_signals

    warned = warnings_at_the_end(StoreWarning, JobsWarning, ReturnWarning)
    # exits from right to left: the bar ends, clients close while signals are still handled, warnings come last
    with warned, handle_signals(time_limit), clients as client, display(quiet) as listener:
        run_to_file(study, path, client=client, options=options, listener=listener, print_line=print_line)


def _print_nothing(line: str) -> None:
    pass


def _clients(
    scheduler: str | None,
    scheduler_file: Path | None,
    cluster: str | None,
    options: RunOptions,
    result: Path,
    print_line: PrintLine,
) -> AbstractContextManager[Client | None]:
    """Return the client of a scheduler or batch system, or None for workers on this machine.  Raises InputError."""
    if cluster is None and scheduler is None and scheduler_file is None:
        return nullcontext()
    from evogt_study.workers.batch_systems import connect_to_batch_system
    from evogt_study.workers.clusters import connect_to_scheduler

    if cluster is None:
        return connect_to_scheduler(scheduler, scheduler_file)
    if not options.workers:
        raise InputError("`--workers` must be given with --cluster: the number of workers")
    return connect_to_batch_system(cluster, options.workers, jobs_folder(result), print_line)


def _run_task(
    study: Study, path: Path, task: str, options: RunOptions, time_limit: str | None, print_line: PrintLine
) -> bool:
    """Compute parts of a study as one task of an array.  Returns True if the result has all runs."""
    number, of = task_of(task)
    from evogt_study.operations.run import run_task
    from evogt_study.workers.signals import handle_signals

    with warnings_at_the_end(StoreWarning, ReturnWarning), handle_signals(time_limit, waits=True) as check_end:
        whole = run_task(study, path, number, of, options=options, print_line=print_line, check_end=check_end)
    if not whole:
        print_line(f"{path} is not written yet: other tasks compute the rest")
    return whole and path.exists()


@click.command(cls=Command)
@study_file_argument
@result_option
@click.option("--tasks", type=click.IntRange(1), required=True, help="Number of tasks of the array.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Number of workers of each task.")
@click.option("--cluster", metavar="SYSTEM", default="slurm", show_default=True, help="slurm, pbs, sge or lsf.")
@click.option(
    "--directive", "directives", multiple=True, metavar="TEXT", help="Add a directive to the script: --time=4:00:00."
)
@click.option("--print", "prints", is_flag=True, help="Print the script and do not submit it.")
def submit(
    study_file: Path,
    output: Path | None,
    tasks: int,
    workers: int,
    cluster: str,
    directives: tuple[str, ...],
    prints: bool,
) -> None:
    """Submit an array of tasks to a batch system.

    Each task is `evogt run --task I/N`, without a scheduler.  Its output goes to the folder RESULT.jobs.  The same
    command again runs the missing cases.
    """
    from evogt_study.workers.batch_systems import job_script, make_jobs_folder, submit_script

    path = result_of(read_study(study_file), output)
    # first: it refuses a system or a directive before anything is written
    script = job_script(cluster, study_file, path, tasks, workers=workers, directives=directives)
    # before any task starts: SLURM does not make the folder of their output
    make_jobs_folder(path)
    if prints:
        tell_lines(script.rstrip("\n"))
    else:
        tell(submit_script(cluster, script))


def _print_forecast(study: Study, path: Path, options: RunOptions, as_json: bool) -> None:
    """Print what would run: cases, shared work, time and memory."""
    from dask.system import CPU_COUNT

    from evogt_study.operations.forecast import START_SECONDS
    from evogt_study.results.finished import read_finished_runs
    from evogt_study.study.phases import in_words
    from evogt_study.study.plan import provisional_plans

    # the count of Dask, as in `evogt run`: it respects the limits of a container
    workers = options.workers or CPU_COUNT
    done = read_finished_runs(study, path, others=tuple(map(Path, options.reuse_from)))
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


def _print_plan(plan: Plan, workers: int, done: FinishedRuns | None) -> float | None:
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


def _print_finished(plan: Plan, done: FinishedRuns | None) -> Order | None:
    """Print how many cases of a phase are finished; return the numbers of the others, or None if none is finished."""
    count = None if done is None else done.count(plan.phase)
    if done is None or count is None:
        return None
    places = done.places(plan.phase)
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
@click.argument("file", metavar="STUDY.toml|FILE.nc", type=PATH)
@assignments_argument
@pilot_option
@code_option
@strict_option
def try_case(file: Path, assignments: tuple[str, ...], pilot: bool, code: Path | None, strict: bool) -> None:
    """Run one case here and show its return value or its traceback.

    KEY=VALUE selects the case; axes that are left out have their first value.  A study may have other values, for
    example `evogt try STUDY.toml n=1000`.

    For a result, the run is compared with the stored run bit for bit.  Exit code 1 if they differ.  Code is executed
    only if none of its files has changed since the result was computed.
    """
    is_study = file.suffix == ".toml"
    if is_study:
        refuse_options("a study", allowed="strict")
    from evogt_study.operations.trial import try_case as compute

    at = {
        name: list(value) if isinstance(value, AxisValues) else value
        for name, value in read_assignments(assignments).items()
    }
    made = compute(read_study(file) if is_study else file, at, pilot=pilot, code=code)
    if not is_study:
        tell_unfinished(file)
    print_lines(made.describe())
    if made.raised:
        tell_lines(made.raised.rstrip("\n"), err=True)
    if (strict and made.status.name != "ok") or not (is_study or made.equal):
        raise SystemExit(FAILED)
