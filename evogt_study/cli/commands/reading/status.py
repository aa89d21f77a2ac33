"""The command `evogt status`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path

import click
import xarray as xr

from evogt_study import cli
from evogt_study.analysis.completeness import completeness
from evogt_study.cli.chosen_runs import no_result, runs_so_far
from evogt_study.cli.chosen_study import print_unasked, read_study, result_of
from evogt_study.cli.messages import print_lines, tell_unfinished, warn
from evogt_study.cli.options import from_option
from evogt_study.cli.result_display import format_counts, format_messages, format_missing, format_software
from evogt_study.errors import InputError
from evogt_study.operations.progress import computation_of
from evogt_study.results.finished import finished
from evogt_study.storage.paths import description
from evogt_study.study.study import Study
from evogt_study.text import tell

WATCH_SECONDS = 5.0
"""Between two looks: at a million runs one takes about as long, at a thousand 0.1 s."""
PAGE_SECONDS = 60.0
"""The same with a page, whose pictures take seconds."""


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Result of a STUDY.toml.  [default: results/NAME.nc]"
)
@from_option
@click.option("--watch", is_flag=True, help="Look again and again, until nobody computes it any more, or Ctrl-C.")
@click.option("--html", type=click.Path(path_type=Path), help="Page to write too; with --watch each minute.")
def status(file: Path, output: Path | None, others: tuple[Path, ...], watch: bool, html: Path | None) -> None:
    """Tell what is done, failed and missing of a result FILE.nc, or of what a STUDY.toml asks for.

    Of a study it is told what `evogt run` would find: cases that were added to it are not_run.  Of a result that is
    being computed it is told by which process, how fast, and how long it still takes; of one that is not finished
    otherwise, that nobody computes it.
    """
    if html is not None:
        cli.check_page(html, "--html")
    study = None
    if file.suffix == ".toml":
        study = read_study(file)
    else:
        for option in ["--output"] * (output is not None) + ["--from"] * bool(others):
            raise InputError(f"`{option}` must be given with a STUDY.toml, got the result {file}")
    path = file if study is None else result_of(study, output)
    with suppress(KeyboardInterrupt) if watch else nullcontext():
        while _look(study, path, others, html) and watch:
            _wait(path, WATCH_SECONDS if html is None else PAGE_SECONDS)


def _look(study: Study | None, path: Path, others: tuple[Path, ...], html: Path | None) -> bool:
    """Print the state of a result, and write its page; return whether it is being computed."""
    computed = _print_state(study, path, others)
    if html is not None and (path.exists() or description(path).exists()):
        cli.write_report(path, html, f"{computation_of(path).described()}; seen at {_now()}" if computed else "")
    return computed


def _now() -> str:
    """The time by which a page that is read later is judged."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _print_state(study: Study | None, path: Path, others: tuple[Path, ...]) -> bool:
    """Print the state of a result, or of what a study asks for; return whether it is being computed."""
    computation = computation_of(path)
    begun = description(path).exists()
    if begun or computation.runs:
        tell(f"{path}: {computation.described()}")
    if computation.runs and not begun and not path.exists():
        return True  # no run is finished, and the study is not written down
    if study is None:
        with runs_so_far(path, ()) as runs:
            _print_status(path, runs)
    else:
        _print_asked_for(study, path, others)
    return computation.runs


def _print_asked_for(study: Study, path: Path, others: tuple[Path, ...]) -> None:
    done = finished(study, path, others=others)
    if done is None:
        raise no_result(path)
    tell_unfinished(path)
    _print_status(path, done.runs())
    for phase in study.phases:
        if phase.name not in done.tables:
            tell(f"{path} ({phase.name}): not run, since its {next(iter(done.tables))} has not chosen yet")
    print_unasked(path, done)
    warn(done.reader.changed_helpers())


def _wait(path: Path, seconds: float) -> None:
    """Wait until there may be news, or nobody computes the result any more; then begin a new screen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and computation_of(path).runs:
        time.sleep(WATCH_SECONDS / 10)  # so late at most is an end seen
    click.clear()  # nothing where the output is no terminal


def _print_status(path: Path, phases: Mapping[str, xr.Dataset]) -> None:
    """Print what became of the runs of each phase."""
    for phase, data in phases.items():
        found = completeness(data)
        tell(f"{path} ({phase}): {format_counts(found)}")
        print_lines(format_missing(found))
        print_lines(format_messages(found))
        print_lines(format_software(data))
