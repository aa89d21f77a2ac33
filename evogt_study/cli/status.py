"""The commands `evogt status` and `evogt store`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evogt_study.cli.display import (
    format_counts,
    format_messages,
    format_missing,
    format_software,
    print_lines,
    tell_unfinished,
    warnings_at_the_end,
)
from evogt_study.cli.inputs import no_result, print_unasked, reuse_from_option, runs_so_far
from evogt_study.cli.pictures import check_page, write_report
from evogt_study.errors import DoubtWarning, InputError
from evogt_study.storage.paths import default_result, description, store_folder
from evogt_study.text import tell

if TYPE_CHECKING:
    import xarray as xr

    from evogt_study.results.finished import Kept
    from evogt_study.study.study import Study

WATCH_SECONDS = 5.0
"""Seconds between two displays.  A display of a million runs takes about as long, of a thousand 0.1 s."""
PAGE_SECONDS = 60.0
"""The same with a page, whose figures take seconds."""


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Result of a STUDY.toml.  [default: results/NAME.nc]"
)
@reuse_from_option
@click.option("--watch", is_flag=True, help="Look again and again, until nobody computes it any more, or Ctrl-C.")
@click.option("--html", type=click.Path(path_type=Path), help="Page to write too; with --watch each minute.")
def status(file: Path, output: Path | None, reuse_from: tuple[Path, ...], watch: bool, html: Path | None) -> None:
    """Tell what is done, failed and missing of a result FILE.nc, or of what a STUDY.toml asks for.

    Of a study it is told what `evogt run` would find: cases that were added to it are not_run.  Of a result that is
    being computed it is told by which process, how fast, and how long it still takes; of one that is not finished
    otherwise, that nobody computes it.
    """
    if html is not None:
        check_page(html, "--html")
    study, path = None, file
    if file.suffix == ".toml":
        from evogt_study.results.reopened import study_as_recorded
        from evogt_study.storage.untrusted import MAX_STUDY_BYTES, read_text
        from evogt_study.study.model import read_toml

        text = read_text(file, "the study file", max_bytes=MAX_STUDY_BYTES)
        path = output or default_result(read_toml(text, str(file)).name)
        with warnings_at_the_end(DoubtWarning):
            study = study_as_recorded(file, [path, *reuse_from])
    else:
        for option in ["--output"] * (output is not None) + ["--reuse-from"] * bool(reuse_from):
            raise InputError(f"`{option}` must be given with a STUDY.toml, got the result {file}")
    with suppress(KeyboardInterrupt) if watch else nullcontext():
        while _look(study, path, reuse_from, html) and watch:
            _wait(path, WATCH_SECONDS if html is None else PAGE_SECONDS)


def _look(study: Study | None, path: Path, reuse_from: tuple[Path, ...], html: Path | None) -> bool:
    """Print the state of a result, and write its page; return whether it is being computed."""
    from evogt_study.operations.progress import computation_of

    computed = _print_state(study, path, reuse_from)
    if html is not None and (path.exists() or description(path).exists()):
        write_report(path, html, f"{computation_of(path).described()}; seen at {_now()}" if computed else "")
    return computed


def _now() -> str:
    """Return the present time in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _print_state(study: Study | None, path: Path, reuse_from: tuple[Path, ...]) -> bool:
    """Print the state of a result, or of a study; return whether it is being computed."""
    from evogt_study.operations.progress import computation_of

    computation = computation_of(path)
    begun = description(path).exists()
    if begun or computation.runs:
        tell(f"{path}: {computation.described()}")
    if computation.runs and not begun and not path.exists():
        return True  # no run is finished, and the study is not on disk
    if study is None:
        with runs_so_far(path, ()) as runs:
            _print_status(path, runs)
    else:
        _print_asked_for(study, path, reuse_from)
    return computation.runs


def _print_asked_for(study: Study, path: Path, reuse_from: tuple[Path, ...]) -> None:
    from evogt_study.results.finished import finished

    done = finished(study, path, others=reuse_from)
    if done is None:
        raise no_result(path)
    tell_unfinished(path)
    _print_status(path, done.runs())
    for phase in study.phases:
        if phase.name not in done.tables:
            tell(f"{path} ({phase.name}): not run, since its {next(iter(done.tables))} has not chosen yet")
    print_unasked(path, done)


def _wait(path: Path, seconds: float) -> None:
    """Wait for `seconds` or until the computation ends, then clear the screen."""
    from evogt_study.operations.progress import computation_of

    end = time.monotonic() + seconds
    while time.monotonic() < end and computation_of(path).runs:
        time.sleep(WATCH_SECONDS / 10)  # the largest delay after the end
    click.clear()  # only on a terminal


def _print_status(path: Path, phases: Mapping[str, xr.Dataset]) -> None:
    """Print the runs of each phase by status."""
    from evogt_study.analysis.status_counts import completeness

    for phase, data in phases.items():
        found = completeness(data)
        tell(f"{path} ({phase}): {format_counts(found)}")
        print_lines(format_missing(found))
        print_lines(format_messages(found))
        print_lines(format_software(data))


_places = click.argument("places", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))


@click.group()
def store() -> None:
    """List, prune or move finished runs that are kept beside results.

    They are runs that a study does not ask for now, since one of its lines was changed.  `evogt run` takes them when it
    asks for them again.
    """


@store.command("list")
@_places
def list_(places: tuple[Path, ...]) -> None:
    """Print runs and bytes that are kept beside each PATH, a result, or in it, a folder.  [default: results]

    A line for each change tells why they are not asked for, and when they were put there.
    """
    from evogt_study.results.finished import stored_runs

    found = [stored_runs(result) for result in _results(places)]
    for each in found:
        tell(_told(each))
        for path, head in each.shards:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))
            tell(f"  {when}  {len(head.keys):,} runs, {_size(head.size)}: {head.about or 'no reason recorded'}")
        for error in each.unread:
            tell(f"  {error}")
    if not found:
        tell("no runs are kept")


@store.command("prune")
@_places
@click.option("--older-than", metavar="TIME", help="Only what was put there that long ago: 90, 30m, 11h30m, 2d.")
def prune_(places: tuple[Path, ...], older_than: str | None) -> None:
    """Remove what is kept beside each PATH, a result, or in it, a folder.  It cannot be brought back."""
    from evogt_study.results.finished import prune_store
    from evogt_study.storage.lease import only_writer
    from evogt_study.workers.signals import seconds

    if not places:
        raise InputError("`PATH` must be a result or a folder, got none; `evogt store list` shows what there is")
    before = None if older_than is None else time.time() - seconds(older_than, "--older-than")
    for result in _results(places):
        with only_writer(result):
            tell(f"removed {_told(prune_store(result, before))}")


@store.command("move")
@click.argument("source", metavar="FROM.nc", type=click.Path(path_type=Path))
@click.argument("target", metavar="TO.nc", type=click.Path(path_type=Path))
def move_(source: Path, target: Path) -> None:
    """Put what is kept beside the result FROM.nc beside TO.nc, whether they exist or not, on whatever disk."""
    from evogt_study.results.finished import move_store
    from evogt_study.storage.lease import only_writer

    if not store_folder(source).is_dir() and not store_folder(target).is_dir():  # all may be there already
        raise _nothing_kept(source)
    with ExitStack() as locks:
        # sorted, so that two commands never wait for each other; a set, because both may be equal
        for result in sorted({source.resolve(), target.resolve()}):
            locks.enter_context(only_writer(result))
        tell(f"moved to {_told(move_store(source, target))}")


def _results(places: tuple[Path, ...]) -> Iterator[Path]:
    """Yield results that may have a store.  Raises InputError for a path that has neither result nor store."""
    from evogt_study.results.finished import stores_in

    for place in places or (Path("results"),):
        if place.is_dir() or not places:  # the default folder may not be there yet
            yield from stores_in(place)
        elif store_folder(place).is_dir() or place.is_file():
            yield place
        else:
            raise _nothing_kept(place)


def _nothing_kept(result: Path) -> InputError:
    return InputError(f"`PATH` must be a result beside which runs are kept, or a folder, got {result}; there are none")


def _told(found: Kept) -> str:
    return f"{found.folder}: {found.runs:,} runs, {_size(found.size)}"


def _size(count: int) -> str:
    """Return a number of bytes in a suitable unit."""
    unit = max((unit for unit in range(4) if count >= 1000**unit), default=0)
    return f"{count / 1000**unit:.3g} {('bytes', 'kB', 'MB', 'GB')[unit]}"
