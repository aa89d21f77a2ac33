"""The command `evogt plan`."""

from __future__ import annotations

from pathlib import Path

import click
from dask.system import CPU_COUNT

from evogt_study.cli.chosen_study import print_unasked, read_study, result_of
from evogt_study.cli.options import from_option, result_option, study_file_argument
from evogt_study.operations.forecast import START_SECONDS, predicted, worker_memory
from evogt_study.results.decisions import decisions
from evogt_study.results.finished import Finished, finished
from evogt_study.results.table import Table
from evogt_study.study.phases import Precision, in_words
from evogt_study.study.plan import OWN, Order, Plan, provisional_plans, shared_work
from evogt_study.text import tell


@click.command()
@study_file_argument
@result_option
@click.option("--workers", type=click.IntRange(1), help="Worker processes to predict for.  [default: the cores]")
@from_option
def plan(study_file: Path, output: Path | None, workers: int | None, others: tuple[Path, ...]) -> None:
    """Tell what would run: cases, shared work, and how long and how much memory it takes.  Writes nothing.

    Of cases that are finished it is told how many, and where; all else is about those that are missing.  Times are
    predicted from a few cases of different sizes, which are computed for that within a few seconds.
    """
    # Dask's count, by which `evogt run` starts workers: it heeds the limits of a container
    study, workers = read_study(study_file), workers or CPU_COUNT
    path = result_of(study, output)
    done = finished(study, path, others=others)
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
    """Print what of one phase would run; return its predicted wall seconds, None where only running tells."""
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
    """The runs that a precision is expected to take, as far as finished ones tell."""
    goal = precision.goal
    width = f"{100.0 * goal.half_width:g} %" if goal.relative else f"{goal.half_width:g}"
    what = f"{goal.of} of {precision.variable} to a half width of {width}"
    if not isinstance(known, Table) or not (made := decisions(precision, known)):
        return f"then seeds until the {what} is known in each cell, at most {goal.at_most:,}; no run tells how many yet"
    done, expected = sum(bool(each.reason) for each in made.values()), sum(each.expected for each in made.values())
    return f"about {expected:,} runs expected for the {what}; {done:,} of {len(made):,} cells have all of theirs"


def _print_finished(plan: Plan, done: Finished | None) -> Order | None:
    """Print how many cases of a phase are finished; return the numbers of the others, None where they are all."""
    count = None if done is None else done.count(plan.phase)
    if done is None or count is None:
        return None
    places = done.reader.places(plan.phase)
    tell(f"    {count:,} of {plan.count:,} are finished" + (f": {places}" if places else ""))
    return done.tables[plan.phase].missing() if count else None


# a unit serves from one and a half of it on, since 80 s says more than 1.3 min
def _duration(seconds: float) -> str:
    """A time in the unit that suits it, with two or more digits."""
    units = (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3))
    unit, length = next((entry for entry in units if seconds >= 1.5 * entry[1]), units[-1])
    number = seconds / length
    return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
