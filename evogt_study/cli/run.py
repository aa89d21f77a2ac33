"""Define the commands `evogt run`, `try` and `submit`.

`evogt run` recognises a complete result and starts workers before the imports for the computation, which take a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evogt_study.cli import display, inputs
from evogt_study.cli.inputs import RUN_OPTIONS, option
from evogt_study.cli.main import FAILED
from evogt_study.errors import ReturnWarning, StoreWarning
from evogt_study.operations.complete import find_complete_result
from evogt_study.storage.files import default_result
from evogt_study.text import format_count, format_duration, print_line, print_text
from evogt_study.workers.runner import RunOptions, prestart_runner

if TYPE_CHECKING:
    from evogt_study.operations.forecast import PhaseForecast
    from evogt_study.results.table import RunTable
    from evogt_study.study.plan import Precision
    from evogt_study.study.study import Study


@inputs.make_command([inputs.STUDY_FILE, inputs.ASSIGNMENTS], {
    "Result and reuse": [
        inputs.OUTPUT, RUN_OPTIONS["reuse_from"], RUN_OPTIONS["reuse_old_code"], RUN_OPTIONS["retry_failed"],
        RUN_OPTIONS["rerun_outdated"],
    ],
    "Workers and clusters": [
        RUN_OPTIONS["workers"], RUN_OPTIONS["memory_limit"], *inputs.SCHEDULER,
        option("--task", "I/N", "Run as task I of N of an array.  Tasks need only a common folder."),
    ],
    "Limits": [
        RUN_OPTIONS["run_timeout"], RUN_OPTIONS["max_failures"],
        option("--time-limit", "TIME",
               "Stop after this time and keep finished runs.  Use 90 (seconds), 30m, 11h30m or 2d."),
    ],
    "Other": [
        option("-n --dry-run", "",
               "Print the cases, the time and the memory.  Run up to three cases to measure the time.  Write nothing."),
        inputs.STRICT, inputs.JSON, inputs.QUIET,
    ],
})  # fmt: skip
def run(
    study_file: Path, assignments: tuple[str, ...], output: Path | None, scheduler: str | None,
    scheduler_file: Path | None, task: str | None, time_limit: str | None, dry_run: bool, strict: bool, as_json: bool,
    quiet: bool, **given: Any,
) -> None:  # fmt: skip
    """Run the missing cases of a study and write the result file.

    KEY=VALUE changes the study.  For example, a=5 sets a constant, and n=10,20 or seed=0..99 sets an axis.

    The command reuses finished runs of the result file, its store, other results in the same folder and the places in
    --reuse-from.  Runs that are no longer part of the study move to the store.  See `evogt store`.  For example, n=5
    without -o replaces results/NAME.nc and moves the runs with another n to the store.
    """
    if dry_run:
        inputs.refuse_options("--dry-run", allowed="dry_run output reuse_from workers as_json")
    options = RunOptions(**given)
    inputs.check_together(scheduler=scheduler, scheduler_file=scheduler_file, task=task)
    inputs.check_together(workers=options.workers, scheduler=scheduler, scheduler_file=scheduler_file)
    elsewhere = bool(scheduler or scheduler_file)
    is_plain = not (assignments or task or dry_run or options.retry_failed or options.rerun_outdated or time_limit)
    if is_plain and not elsewhere and (found := find_complete_result(study_file, output)) is not None:
        display.print_result(*found, quiet=quiet, strict=strict, as_json=as_json)
        return
    if not (task or dry_run):
        prestart_workers(study_file, elsewhere=elsewhere or options.workers == 0)
    study = inputs.read_study(study_file, assignments)
    path = output or default_result(study.name)
    if dry_run:
        _print_forecast(study, path, options, as_json)
        return
    array = None if task is None else inputs.read_task(task)
    from evogt_study.operations.run import run_task, run_to_file
    from evogt_study.workers.signals import handle_signals

    notify: Callable[[str], None] = (lambda line: None) if quiet else partial(print_line, err=True)
    # the contexts exit from right to left: progress, client, signals, warnings
    warned, summary = display.print_warnings_at_end(StoreWarning, ReturnWarning), None
    with warned, handle_signals(time_limit, waits=array is not None) as check_end, ExitStack() as stack:
        if array is not None:
            whole = run_task(study, path, *array, options=options, print_line=notify, check_end=check_end)
        else:
            client, whole = None, True
            if elsewhere:
                from evogt_study.workers.dask_executor import connect_to_scheduler

                client = stack.enter_context(connect_to_scheduler(scheduler, scheduler_file))
            listener = display.make_listener(quiet)
            summary = run_to_file(study, path, client=client, options=options, listener=listener, print_line=notify)
    if whole and path.exists():
        display.print_result(path, summary, strict=strict, as_json=as_json)
        return
    notify(f"{path} is not written yet: other tasks compute the rest")
    if as_json:
        display.print_json({"result": str(path), "complete": False, "phases": {}})


def prestart_workers(*paths: Path, elsewhere: bool = False) -> None:
    """Start a runner on this machine if all paths exist.  The runner imports its modules in parallel."""
    if not elsewhere and all(path.exists() for path in paths):
        prestart_runner()


@inputs.make_command([inputs.STUDY_FILE, inputs.ASSIGNMENTS], [
    inputs.OUTPUT,
    option("--tasks", "N", "Number of tasks of the array.", type=click.IntRange(1), required=True),
    option("--workers", "N", "Number of workers of each task.", type=click.IntRange(1), default=1),
    option("--cluster", "SYSTEM", "slurm, pbs, sge or lsf.", default="slurm"),
    option("--directive directives", "TEXT", "Add a directive to the script: --time=4:00:00.", multiple=True),
    option("--print prints", "", "Print the script and create RESULT.jobs, but do not submit."),
])  # fmt: skip
def submit(
    study_file: Path, assignments: tuple[str, ...], output: Path | None, tasks: int, workers: int, cluster: str,
    directives: tuple[str, ...], prints: bool,
) -> None:  # fmt: skip
    """Submit an array of tasks to a batch system.

    KEY=VALUE changes the study as in `evogt run`.  Each task calls `evogt run --task I/N` without a scheduler.  The
    output of the tasks is in the folder RESULT.jobs.  To run the missing cases, submit again.
    """
    from evogt_study.study.plan import count_needs
    from evogt_study.workers.batch_systems import make_job_scripts, make_jobs_folder, submit_script

    study = inputs.read_study(study_file, assignments)
    path = output or default_result(study.name)
    # check the system and the directives before any other step
    retries = study.model.resources is not None and study.model.resources.retry_memory
    scripts = make_job_scripts(
        cluster, [str(study_file), *assignments], path, tasks, count_needs(study), workers=workers,
        directives=directives, retries=retries,
    )  # fmt: skip
    # SLURM does not create the folder of the outputs
    make_jobs_folder(path)
    for script in scripts:
        if prints:
            print_text(script.rstrip("\n"))
        else:
            print_line(submit_script(cluster, script))


def _print_forecast(study: Study, path: Path, options: RunOptions, as_json: bool) -> None:
    """Print the forecast of a study: the cases, the shared stages, the time and the memory."""
    from dask.system import CPU_COUNT

    from evogt_study.operations.forecast import START_SECONDS, forecast_phase
    from evogt_study.results.finished import read_finished_runs
    from evogt_study.study.plan import join_values, plan_study

    # the number of cores from Dask respects the limits of a container
    workers = options.workers or CPU_COUNT
    done = read_finished_runs(study, path, others=tuple(map(Path, options.reuse_from)))
    found, lines = [], [f"study {study.name}" + (f": {study.model.title}" if study.model.title else "")]
    for phase, plan in zip(study.phases, plan_study(study), strict=True):
        table = None if done is None else done.tables.get(phase.name)
        found.append(forecast_phase(plan, None) if table is None else forecast_phase(table.plan, done))
        lines += _describe_forecast(found[-1])
        if phase.precision is not None:
            lines.append(f"    {_describe_precision(phase.precision, table)}")
        if phase.choice is not None:
            lines.append(f"then, with `{join_values(phase.choice.parameters)}` chosen by the {phase.name}:")
    walls = [each.wall_seconds(workers) for each in found]
    seconds = None if None in walls else START_SECONDS + sum(filter(None, walls))
    if as_json:
        phases = {
            each.plan.phase: {
                "cases": each.plan.space.count, "runs": len(each.plan.runs), "finished": each.n_finished,
                "missing": each.n_missing, "seconds": None if each.prediction is None else each.prediction.seconds,
                "longest": None if each.prediction is None else each.prediction.longest, "memory": each.memory or None,
            }
            for each in found
        }  # fmt: skip
        display.print_json({"result": str(path), "workers": workers, "seconds": seconds, "phases": phases})
        return
    display.print_lines(lines)
    inputs.print_unplanned(path, done)
    if not any(each.n_missing for each in found):
        print_line("no case is missing")
    elif seconds is None:
        print_line("the time is unknown: a timed case failed to finish within 10 s")
    else:
        start = format_duration(START_SECONDS)
        print_line(f"in all about {format_duration(seconds)} with --workers {workers}, {start} of it for the start")


def _describe_forecast(found: PhaseForecast) -> Iterator[str]:
    """Yield lines about the cases, shared stages, time and memory of one phase."""
    from evogt_study.study.plan import OWN_STAGE

    plan = found.plan
    axes = " x ".join(f"{len(axis.values)} {axis.name}" for axis in plan.space.axes)
    holes = "" if plan.space.count == plan.space.size else f" of {plan.space.size:,} points"
    same = "" if len(plan.runs) == plan.space.count else f" with {len(plan.runs):,} different runs"
    yield f"  {plan.phase}: {format_count(plan.space.count, 'case')}{holes} = {axes}{same}"
    if found.n_finished:
        places = f": {found.places}" if found.places else ""
        yield f"    {found.n_finished:,} of {plan.space.count:,} are finished{places}"
    for work in found.stages:
        if work.stage != OWN_STAGE:
            sample = "" if work.cases == found.n_missing else f" (among the first {work.cases:,})"
            share = f"{work.distinct / work.cases:.0%} of the cases{sample}"
            yield f"    {work.stage:<21} computed {work.distinct:>8,} times, {share}"  # 21: "coefficient reference"
    if found.prediction is not None and found.n_missing:
        seconds, longest = map(format_duration, found.prediction)
        yield f"    about {seconds} of work, {longest} for the longest run"
    if found.memory:
        yield f"    about {found.memory / 2**20:.0f} MiB of memory for each worker"


def _describe_precision(precision: Precision, table: RunTable | None) -> str:
    """Return a line with the expected number of runs that reach a target precision."""
    from evogt_study.study.plan import decide_setups

    goal = precision.goal
    width = f"{100.0 * goal.half_width:g} %" if goal.relative else f"{goal.half_width:g}"
    what = f"{goal.statistic} of {precision.variable} to a half width of {width}"
    if table is None or not (made := decide_setups(precision, table)):
        return f"then seeds until each setup has the {what}, at most {goal.max_seeds:,} (no estimate yet)"
    done, expected = sum(bool(each.reason) for each in made.values()), sum(each.expected for each in made.values())
    return f"about {expected:,} runs expected for the {what}; {done:,} of {len(made):,} setups have all seeds"


@inputs.make_command([inputs.argument("file", "STUDY.toml|FILE.nc"), inputs.ASSIGNMENTS], [
    inputs.PILOT, inputs.CODE, inputs.STRICT,
], name="try")  # fmt: skip
def try_case(file: Path, assignments: tuple[str, ...], pilot: bool, code: Path | None, strict: bool) -> None:
    """Run one case here and show its return value or its traceback.

    KEY=VALUE selects the case.  Every other axis has its first value.  For a study, use any value, for example `evogt
    try STUDY.toml n=1000`.

    For a result, the command compares the new run with the stored run bit for bit.  The exit code is 1 if the runs
    differ.  The command executes the code only if none of its files has changed since the result was computed.
    """
    is_study = file.suffix == ".toml"
    if is_study:
        inputs.refuse_options("a study", allowed="strict")
    from evogt_study.operations.verify import try_case as compute

    at = inputs.read_assignments(assignments)
    made = compute(inputs.read_study(file) if is_study else file, at, pilot=pilot, code=code)
    if not is_study:
        display.warn_if_unfinished(file)
    display.print_lines(made.describe())
    if made.raised:
        print_text(made.raised.rstrip("\n"), err=True)
    if (strict and made.status.name != "ok") or not (is_study or made.equal):
        raise SystemExit(FAILED)
