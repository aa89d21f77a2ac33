"""The command line, `evogt`.

What a command needs is imported when it runs: ``evogt --help`` and a mistyped option should answer at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from evogt_study.errors import DoubtWarning, EvogtError, InputError
from evogt_study.printable import tell, tell_lines

if TYPE_CHECKING:
    import xarray as xr
    from distributed import Client

    from evogt_study.planning.plan import Plan
    from evogt_study.results.finished_runs import Finished
    from evogt_study.study.study import Study

SOME_FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


class _Command(click.Group):
    """Turns the package's named failures into one line and an exit code; anything else is a bug, with its traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except EvogtError as error:
            _stop(str(error), BAD_INPUT if isinstance(error, InputError) else SOME_FAILED)
        except MemoryError:
            _stop("there is not enough memory on this machine for what was asked", SOME_FAILED)
        except KeyboardInterrupt as reason:
            told = str(reason) or "interrupted"
            _stop(f"{told}; finished runs are kept, the same command computes the rest", INTERRUPTED)


def _stop(message: str, code: int) -> NoReturn:
    tell(f"evogt: {' '.join(message.split())}", err=True)
    raise SystemExit(code)


@click.group(cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="evogt-study")
def main() -> None:
    """Parametric studies of the Evo-GTransNet method: a study file in, one labelled NetCDF file out."""


_study_file = click.argument("study_file", metavar="STUDY.toml", type=click.Path(path_type=Path))
_result_file = click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Result file.  [default: results/NAME.nc]"
)


def _result_of(study: Study, output: Path | None) -> Path:
    """Where a study's result is, unless it is said to be elsewhere."""
    from evogt_study.storage.paths import default_result

    return output or default_result(study.name)


@main.command()
@_study_file
@_result_file
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
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def run(
    study_file: Path,
    output: Path | None,
    workers: int | None,
    scheduler: str | None,
    scheduler_file: Path | None,
    cluster: str | None,
    retry_failed: bool,
    rerun_outdated: bool,
    run_limit: float | None,
    max_failures: int | None,
    time_limit: str | None,
    quiet: bool,
) -> None:
    """Compute what is missing of a study and write its result."""
    _check_one_of(workers if cluster is None else None, scheduler, scheduler_file, cluster)
    options = (scheduler, scheduler_file, cluster, retry_failed, rerun_outdated, run_limit, max_failures, time_limit)
    if all(option in (None, False) for option in options):
        from evogt_study.operations.complete import complete_result

        path = complete_result(study_file, output)
        if path is not None:
            _print_result(path, quiet=quiet)
            return
    _workers_ahead(study_file, elsewhere=cluster or scheduler or scheduler_file)
    from evogt_study.cli.progress_display import display
    from evogt_study.operations.run import run_to_file
    from evogt_study.workers.dispatch import Limits
    from evogt_study.workers.interruption import interruptible
    from evogt_study.workers.local_cluster import remote

    limits = Limits(run_limit, max_failures)
    study = _read(study_file)
    path = _result_of(study, output)
    clients = remote(scheduler, scheduler_file) if cluster is None else _jobs(cluster, workers)
    with interruptible(time_limit), clients as client, display(quiet) as listener:
        run_to_file(
            study, path, client=client, workers=workers, retry_failed=retry_failed, listener=listener,
            limits=limits, rerun_outdated=rerun_outdated,
        )  # fmt: skip
    _print_result(path)


def _read(study_file: Path) -> Study:
    """The study, and a line for each thing in it that makes its numbers doubtful."""
    from evogt_study.study.study import Study

    with _told_at_the_end(DoubtWarning):
        return Study.from_file(study_file)


def _workers_ahead(*paths: Path, elsewhere: object = None) -> None:
    """Have workers on this machine import what they need while this process does, where they are sure to be needed."""
    from evogt_study.workers.worker_server import start_ahead

    if elsewhere is None and all(path.exists() for path in paths):
        start_ahead()


def _print_result(path: Path, *, quiet: bool = True) -> None:
    """Runs of a result by status, the pilot's where some are not ok; exit code 1 then.  Progress unless `quiet`."""
    from evogt_study.analysis.completeness import completeness
    from evogt_study.cli import result_display
    from evogt_study.cli.progress_display import display
    from evogt_study.operations.progress import Progress
    from evogt_study.results.netcdf import opened
    from evogt_study.schema.doubts import doubts

    with opened(path) as groups:
        found = {phase: completeness(data) for phase, data in groups.items()}
        doubtful = {phase: list(doubts(data)) for phase, data in groups.items()}
    with display(quiet) as listener:
        for phase, each in reversed(found.items()):  # the pilot's first
            Progress(phase, each.planned, each.planned, listener, failed=each.planned - each.ok).tell(final=True)
    failed = [phase for phase, each in found.items() if each.ok < each.planned]
    for phase, each in found.items():
        if phase == "study" or phase in failed:
            tell(f"{path}{'' if phase == 'study' else f' ({phase})'}: {result_display.counted(each)}")
            _print(result_display.messages(each))
            _warn(doubtful[phase])
    if failed:
        raise SystemExit(SOME_FAILED)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        tell(line)


def _warn(lines: Iterable[str]) -> None:
    for line in lines:
        tell(f"evogt: {line}", err=True)


@main.command()
@_study_file
@_result_file
@click.option("--workers", type=click.IntRange(1), help="Worker processes to predict for.  [default: the cores]")
def plan(study_file: Path, output: Path | None, workers: int | None) -> None:
    """Tell what would run: cases, shared work, and how long and how much memory it takes.  Runs nothing.

    Times are predicted from the parameters, and from how fast this machine is: a second goes into finding that out.
    They are those of all cases; how many of them a result has already is counted.
    """
    from dask.system import CPU_COUNT

    from evogt_study.planning.forecast import START_SECONDS
    from evogt_study.planning.plan import pilot_plan, provisional_choice, study_plan
    from evogt_study.results.finished_runs import finished

    study, workers = _read(study_file), workers or CPU_COUNT
    path = _result_of(study, output)
    done = finished(study, path)
    tell(f"study {study.name}" + (f": {study.title}" if study.title else ""))
    first = pilot_plan(study)
    walls = [] if first is None else [_print_plan(first, workers, path, done)]
    if study.pilot is not None:
        tell(f"then, with `{study.pilot.parameter}` chosen by the pilot:")
    walls.append(_print_plan(study_plan(study, provisional_choice(study)), workers, path, done))
    _print_unasked(path, done)
    known = [wall for wall in walls if wall is not None]
    if len(known) < len(walls):
        tell("only running it tells how long that takes")
    else:
        wall = _duration(START_SECONDS + sum(known))
        tell(f"in all about {wall} with --workers {workers}, on cores like this machine's, start-up included")


def _print_unasked(path: Path, done: Finished | None) -> None:
    """Runs of a result that its study does not ask for, which `evogt run` does not throw away."""
    if done is not None and done.unasked:
        tell(
            f"{path} holds {done.unasked:,} finished runs that {done.study.file} does not ask for; "
            "`evogt run` needs another place for its result (-o)"
        )


def _print_plan(plan: Plan, workers: int, path: Path, done: Finished | None) -> float | None:
    """What one phase would run; its predicted wall seconds, None where only running tells."""
    from evogt_study.planning.forecast import predicted
    from evogt_study.planning.machine import this_machine
    from evogt_study.planning.plan import OWN, shared_work
    from evogt_study.workers.worker_memory import worker_memory

    axes = " x ".join(f"{len(axis.values)} {axis.name}" for axis in plan.space.axes)
    holes = "" if plan.count == plan.space.size else f" of {plan.space.size:,} points"
    tell(f"  {plan.phase}: {plan.count:,} cases{holes} = {axes}")
    count = None if done is None else done.count(plan.phase)
    if count is not None:
        tell(f"    {count:,} of {plan.count:,} are finished in {path}")
    shared = shared_work(plan)
    for work in shared:
        if work.stage == OWN:
            continue
        sample = "" if work.cases == plan.count else f" (among the first {work.cases:,})"
        share = f"{work.distinct / work.cases:.0%} of the cases{sample}"
        tell(f"    {work.stage:<21} computed {work.distinct:>8,} times, {share}")
    tell("    in batches of about a second of work, sized as runs are timed")
    made = predicted(plan, this_machine, shared)
    if made is not None:
        tell(f"    about {_duration(made.seconds)} of work, {_duration(made.longest)} for the longest run")
    memory = worker_memory(plan)
    if memory:
        tell(f"    about {memory / 2**20:.0f} MiB of memory for each worker")
    return None if made is None else made.wall(workers)


def _duration(seconds: float) -> str:
    """A time in the unit that suits it, with two or more digits."""
    units = (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3))
    unit, length = next((entry for entry in units if seconds >= 1.5 * entry[1]), units[-1])
    number = seconds / length
    return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"


@main.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Result of a STUDY.toml.  [default: results/NAME.nc]"
)
def status(file: Path, output: Path | None) -> None:
    """Tell what is done, failed and missing of a result FILE.nc, or of what a STUDY.toml asks for.

    Of a study its result and shards are looked through: cases that were added to it are not_run.
    """
    if file.suffix != ".toml":
        if output is not None:
            raise InputError(f"`--output` must be given with a STUDY.toml, got the result {file}")
        with _runs_so_far(file, ()) as runs:
            _print_status(file, runs)
        return
    from evogt_study.results.finished_runs import finished

    study = _read(file)
    path = _result_of(study, output)
    done = finished(study, path)
    if done is None:
        raise _no_result(path)
    _tell_unfinished(path)
    _print_status(path, done.runs())
    if "study" not in done.tables:
        tell(f"{path} (study): not run, since its pilot has not chosen yet")
    _print_unasked(path, done)


def _print_status(path: Path, phases: Mapping[str, xr.Dataset]) -> None:
    """What became of the runs of each phase."""
    from evogt_study.analysis.completeness import completeness
    from evogt_study.cli import result_display

    for phase, data in phases.items():
        found = completeness(data)
        tell(f"{path} ({phase}): {result_display.counted(found)}")
        _print(result_display.lacking(found))
        _print(result_display.messages(found))
        _print(result_display.software(data))


@contextmanager
def _runs_so_far(path: Path, variables: Sequence[str] | None = None) -> Iterator[Mapping[str, xr.Dataset]]:
    """A result by phase, of which what is asked for is read; or what is finished of one that is being written.

    variables: those that are needed of the latter beside the runs' bookkeeping; None: all.
    """
    from evogt_study.results.netcdf import opened
    from evogt_study.storage.paths import description

    if description(path).exists():
        from evogt_study.results.finished_runs import unfinished

        found = unfinished(path, variables)
        if found is not None:
            _tell_unfinished(path)
            yield found
            return
    if not path.exists():
        raise _no_result(path)
    with opened(path) as groups:
        yield groups


def _tell_unfinished(path: Path) -> None:
    """Say so where a result is being written, or its writing was interrupted."""
    from evogt_study.storage.paths import description

    if description(path).exists():
        tell(f"evogt: {path} is not finished; this is what there is", err=True)


def _check_finished(*paths: Path) -> None:
    """Raise InputError for a result that is not written yet: what needs whole results does not read shards."""
    from evogt_study.storage.paths import description

    for path in paths:
        if not path.exists() and description(path).exists():
            raise InputError(f"`FILE` must be a finished result, got {path}, which is not; `evogt run` goes on with it")


def _no_result(path: Path) -> InputError:
    return InputError(f"`FILE` must be a result, got {path}, which does not exist; `evogt run` makes it")


@main.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option("--over", default="seed", show_default=True, help="Dimensions to reduce over, or none.")
@click.option("--variable", default="error", show_default=True, help="Variables to reduce, separated by commas.")
@click.option(
    "--statistic",
    default="",
    help="Of mean, std, median, geometric_mean, min, max, ci, and quantiles in percent like q25.  "
    "[default: mean,std,median,ci; with --columns mean,std]  std and ci are nan below two runs.",
)
@click.option("--at", "points", multiple=True, metavar="AXIS=VALUE,...", help="Only these labels.")
@click.option("--rows", help="Axes down, in this order, and parameters that follow them.  [default: all others]")
@click.option("--columns", default="", help="Axes across; each cell then holds all statistics.")
@click.option("--ratio", default="", metavar="A/B", help="One more column: mean of label A over that of B, paired.")
@click.option("--format", "form", default="text", show_default=True, help="text, markdown, latex or csv.")
@click.option("--digits", type=int, default=4, show_default=True, help="Significant digits.")
@click.option("--notation", default="scientific", show_default=True, help="scientific or plain.")
@click.option("--interval", default="percentile", show_default=True, help="Bootstrap of ci: percentile or bca.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Confidence of ci.")
@click.option("--missing", default="warn", show_default=True, help="Runs without a value: warn, raise or drop.")
@click.option("--pilot", is_flag=True, help="The pilot's runs.")
def summary(
    file: Path,
    over: str,
    variable: str,
    statistic: str,
    points: tuple[str, ...],
    rows: str | None,
    columns: str,
    ratio: str,
    form: str,
    digits: int,
    notation: str,
    interval: str,
    confidence: float,
    missing: str,
    pilot: bool,
) -> None:
    """Print statistics over seeds, or other dimensions, with the runs they rest on.

    Without other options: mean, standard deviation, median and 95 % interval of the mean, one row for each point.
    """
    from evogt_study.analysis.intervals import Bootstrap
    from evogt_study.analysis.statistics import IncompleteWarning, UndefinedIntervalWarning
    from evogt_study.analysis.tables.numbers import NumberFormat
    from evogt_study.analysis.tables.summary_table import Question, summary_table
    from evogt_study.schema.doubts import doubts
    from evogt_study.study.typed_points import read_point

    question = Question(
        variables=_names(variable), over=_names(over), statistics=_names(statistic), at=read_point(",".join(points)),
        rows=None if rows is None else _names(rows), columns=_names(columns), ratio=ratio, form=form,
        numbers=NumberFormat(digits, notation), interval=Bootstrap(method=interval, confidence=confidence),
        missing=missing,
    )  # fmt: skip
    data = _phase(file, "pilot" if pilot else "study")
    with _told_at_the_end(IncompleteWarning, UndefinedIntervalWarning):
        tell_lines(summary_table(data, question))
    _warn(doubts(data))


def _names(text: str) -> tuple[str, ...]:
    """Names separated by commas, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


@contextmanager
def _told_at_the_end(*kinds: type[Warning]) -> Iterator[None]:
    """What is warned of, one line for each thing, after all else."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        for kind in kinds:
            warnings.simplefilter("always", kind)
        yield
    _warn(dict.fromkeys(str(warning.message) for warning in caught))


def _phase(path: Path, phase: str) -> xr.Dataset:
    """The runs of one phase, as a result has them, or as far as they are finished."""
    from evogt_study.results.netcdf import open_result
    from evogt_study.storage.paths import description

    if path.exists() and not description(path).exists():
        data = open_result(path, phase)
        click.get_current_context().call_on_close(data.close)  # not left to whichever thread collects it
        return data
    with _runs_so_far(path) as runs:
        found = runs.get(phase)
    if found is None:
        missing = "whose pilot is not finished" if phase == "study" else "which has no pilot; leave out --pilot"
        raise InputError(f"`FILE` must have runs of the {phase}, got {path}, {missing}")
    return found


_over = click.option("--over", default=None, help="Axes whose points are the sample, separated by commas.  [seed]")


@main.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", metavar="TABLE", required=True, type=click.Path(path_type=Path), help="New .csv or .parquet file."
)
@click.option("--pilot", is_flag=True, help="The pilot's runs.")
@click.option("--spreadsheet", is_flag=True, help="CSV that no spreadsheet computes: ' before text like a formula.")
def export(file: Path, output: Path, pilot: bool, spreadsheet: bool) -> None:
    """Write the runs as a flat table: one row a point, with parameters, status by name, message and numbers.

    Text of a result can begin like a formula (=, +, -, @), which spreadsheets compute: for them use --spreadsheet.
    Parquet needs pandas and pyarrow (extra parquet).
    """
    from evogt_study.analysis.export import write_table

    if output.exists():
        raise InputError(f"`--output` must be a new file, got {output}, which exists; choose another place with -o")
    count = write_table(_phase(file, "pilot" if pilot else "study"), output, spreadsheet=spreadsheet)
    tell(f"{output}: {count} runs")


@main.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.argument("kind", metavar="[KIND]", required=False)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Picture: .png, .pdf or .svg.  [beside FILE]")
@click.option("--variable", help="Variable to draw.  [default: what the study is about]")
@click.option("--along", metavar="AXIS", help="Axis, or parameter that follows one, that stands horizontally.")
@click.option("--by", metavar="AXIS", help="Axis whose values are series, told apart by colour and marker.")
@click.option("--panel", metavar="AXIS", help="Axis with a panel for each value.")
@_over
@click.option("--at", "points", multiple=True, metavar="AXIS=VALUE,...", help="Hold axes at one value.")
@click.option("--slopes", metavar="P,...", help="Slopes of reference lines of a dependence; 0 for none.")
@click.option("--pilot", is_flag=True, help="Draw the pilot's runs.")
def plot(
    file: Path,
    kind: str | None,
    output: Path | None,
    variable: str | None,
    along: str | None,
    by: str | None,
    panel: str | None,
    over: str | None,
    points: tuple[str, ...],
    slopes: str | None,
    pilot: bool,
) -> None:
    """Draw a result: one KIND of picture, or without one all that fit, and tell what was drawn.

    KIND is distribution, dependence, heat_map, histories, spectrum, rank, work, settling or fields.  Every picture says
    on how many of the planned runs it rests.
    """
    from evogt_study.analysis.plots.arranged import Places
    from evogt_study.analysis.plots.kinds import Wish, check_kind
    from evogt_study.analysis.plots.plot_files import draw_files
    from evogt_study.study.typed_points import read_point

    check_kind(kind)
    places = Places(along, by, panel, None if over is None else _names(over), read_point(",".join(points)))
    wish = Wish(variable, places, None if slopes is None else _slopes(slopes))
    data = _phase(file, "pilot" if pilot else "study")
    for made in draw_files(data, file, kind, wish, output):
        if isinstance(made, str):
            tell(f"evogt: {made}", err=True)
        else:
            tell(f"{made.path}: {made.drawn.title}. {made.drawn.alt}")


def _slopes(text: str) -> tuple[float, ...]:
    """Slopes as numbers; those of zero are no lines.  Raises InputError."""
    try:
        slopes = [float(each) for each in _names(text)]
        if not all(map(math.isfinite, slopes)):
            raise ValueError
    except ValueError:
        raise InputError(f"`--slopes` must be numbers separated by commas, got {text!r}; use e.g. 1,2") from None
    return tuple(slope for slope in slopes if slope)


@main.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Page to write.  [default: beside FILE]")
def report(file: Path, output: Path | None) -> None:
    """Write one HTML page of a result to share: question, numbers, pictures, failures, and how to compute it again.

    The page needs nothing else and opens in any browser, without a network.
    """
    from evogt_study.analysis.plots.plot_files import write
    from evogt_study.analysis.report.report import report as page
    from evogt_study.results.netcdf import with_numbers

    path = output or file.with_suffix(".html")
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"`--output` must end in .html, got {path.name!r}")
    with _runs_so_far(file) as runs:
        made = page(file, {phase: with_numbers(data) for phase, data in runs.items()})
    write(path, made.encode())
    tell(path)


_code = click.option(
    "--code",
    metavar="FILE.py",
    type=click.Path(path_type=Path),
    help="The study's own Python file, to run it.  [default: the one beside the study, if it computed the result]",
)


@main.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option("--at", "points", multiple=True, metavar="AXIS=VALUE,...", help="The case: a value for each axis.")
@click.option("--pilot", is_flag=True, help="A case of the pilot.")
@_code
def replay(file: Path, points: tuple[str, ...], pilot: bool, code: Path | None) -> None:
    """Compute one case of a result again, here, and compare it bit for bit; a traceback where the run raises.

    Axes of one value may be left out of --at.  Exit code 1 where anything differs, or the run fails (again).
    """
    from evogt_study.operations.replay import replay as replayed
    from evogt_study.study.typed_points import read_point

    _check_finished(file)
    made = replayed(file, read_point(",".join(points)), pilot=pilot, code=code)
    tell(f"{file} ({'pilot' if pilot else 'study'}): {made.point}, case {made.case.key}")
    for line in made.told():
        tell(line)
    if made.raised:
        tell_lines(made.raised.rstrip("\n"), err=True)
    if not made.equal:
        raise SystemExit(SOME_FAILED)


@main.command()
@click.argument("files", metavar="A.nc B.nc ...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="New file for the joined result.")
@click.option(
    "--study",
    "study_file",
    metavar="STUDY.toml",
    type=click.Path(path_type=Path),
    help="Study that asks for everything.  [default: that of a file whose axes have all values]",
)
def merge(files: tuple[Path, ...], output: Path, study_file: Path | None) -> None:
    """Join results of one study that were computed apart, for example some seeds on each machine.

    The same run must have the same values everywhere, bit for bit; one that is ok is taken before one that is not.
    Exit code 1 where runs of the joined result are not ok; `evogt run STUDY.toml -o OUTPUT` computes those not run.
    """
    from evogt_study.operations.merge import merge as merged
    from evogt_study.study.study import Study

    _check_finished(*files)
    merged(files, output, study=None if study_file is None else Study.from_file(study_file))
    _print_result(output)


@main.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option("--sample", type=click.IntRange(0), default=3, show_default=True, help="Runs to compute again.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Which runs are drawn.")
@_code
def verify(file: Path, sample: int, seed: int, code: Path | None) -> None:
    """Check a result: checksums, schema, case keys, nothing missing, and a sample of its runs computed again.

    Runs that failed or diverged are counted; they are outcomes.  Exit code 1 where anything is wrong.
    """
    from evogt_study.analysis.completeness import completeness
    from evogt_study.cli import result_display
    from evogt_study.operations.verify import verify as verified

    _check_finished(file)
    made = verified(file, sample=sample, seed=seed, code=code)
    for phase, data in made.phases.items():
        tell(f"{file} ({phase}): {result_display.counted(completeness(data))}")
    for line in made.recomputed:
        tell(f"  computed again: {line}")
    for line in made.findings:
        tell(f"  wrong: {line}")
    if made.left_out:
        tell(f"  {made.left_out}")
    tell(f"{file}: " + ("all well" if made.well else f"{len(made.findings)} wrong"))
    if not made.well:
        raise SystemExit(SOME_FAILED)


@main.command()
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
    _check_one_of(workers, scheduler, scheduler_file)
    studies = studies or (Path("studies/paper"),)
    _workers_ahead(*studies, published, elsewhere=scheduler or scheduler_file)
    from evogt_study.cli.progress_display import display
    from evogt_study.paper.reproduction_report import summary_line, terminal_table
    from evogt_study.paper.reproduction_run import reproduce as reproduced
    from evogt_study.paper.reproduction_run import studies_at, write_report
    from evogt_study.workers.interruption import interruptible
    from evogt_study.workers.local_cluster import remote

    found = studies_at(studies)
    with interruptible(), remote(scheduler, scheduler_file) as client, display(quiet) as listener:
        made = reproduced(found, published, output, client=client, workers=workers, listener=listener)
    tell_lines(terminal_table(made.entries))
    for path in write_report(made, output):
        tell(path)
    tell(f"{made.runs} runs, {made.runs_not_ok} not ok; {summary_line(made.entries)}")
    if made.not_computed:
        tell(f"{made.not_computed} published numbers belong to studies that were not given")
    if not made.holds:
        raise SystemExit(SOME_FAILED)


def _jobs(system: str, workers: int | None) -> AbstractContextManager[Client]:
    from evogt_study.workers.batch_systems import on_batch_system

    if workers is None:
        raise InputError("`--workers` must be given with --cluster: the number of worker processes to ask for")
    return on_batch_system(system, workers)


def _check_one_of(
    workers: int | None, scheduler: str | None, scheduler_file: Path | None, cluster: str | None = None
) -> None:
    if sum(option is not None for option in (workers, scheduler, scheduler_file, cluster)) > 1:
        raise InputError(
            "`--workers`, `--scheduler`, `--scheduler-file` and `--cluster` must not be combined, got more than one"
        )
