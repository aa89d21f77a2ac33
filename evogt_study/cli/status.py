"""Define the commands `evogt status`, `list` and `store`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evogt_study.cli import display, inputs
from evogt_study.cli.inputs import option
from evogt_study.cli.pictures import check_page, write_report
from evogt_study.errors import AccuracyWarning, InputError
from evogt_study.storage.files import STORE, default_result, description_path, runs_folder, store_folder
from evogt_study.text import format_count, print_line, print_text

if TYPE_CHECKING:
    import xarray as xr

    from evogt_study.results.finished import StoreContent
    from evogt_study.study.study import Study

_WATCH_SECONDS, PAGE_SECONDS = 5.0, 60.0  # time between two updates of `evogt status --watch`, and of its page


@inputs.make_command([inputs.argument("file", "FILE")], [
    option("-o --output", "PATH", "Result file of STUDY.toml.  [default: results/NAME.nc]"),
    inputs.RUN_OPTIONS["reuse_from"],
    option("--watch", "", "Refresh until the study ends.  Stop with Ctrl-C."),
    option("--html", "PATH", "Also write an HTML page.  With --watch, refresh it every minute."),
    inputs.JSON,
])  # fmt: skip
def status(
    file: Path, output: Path | None, reuse_from: tuple[Path, ...], watch: bool, html: Path | None, as_json: bool
) -> None:
    """Show the progress of a study.

    FILE is a result (.nc) or a study (.toml).  For a result, show the number of runs by status and the error messages.
    While the study runs, also show the process, the speed and the time left.  For a study, show the runs that `evogt
    run` would find.  Cases that you added count as not run.
    """
    from evogt_study.operations.progress import read_running_study

    inputs.check_together(json=as_json, watch=watch)
    if html is not None:
        check_page(html, "--html")
    study, path = None, file
    if file.suffix == ".toml":
        from evogt_study.results.reopened import study_as_recorded
        from evogt_study.storage.files import MAX_STUDY_BYTES, read_text
        from evogt_study.study.model import read_toml

        text = read_text(file, "the study file", max_bytes=MAX_STUDY_BYTES)
        path = output or default_result(read_toml(text, str(file)).name)
        with display.print_warnings_at_end(AccuracyWarning):
            study = study_as_recorded(file, [path, *reuse_from])
    else:
        inputs.refuse_options("a result", allowed="watch html as_json")
    with suppress(KeyboardInterrupt) if watch else nullcontext():
        while _show_runs(study, path, reuse_from, html, as_json) and watch:
            end = time.monotonic() + (_WATCH_SECONDS if html is None else PAGE_SECONDS)
            while time.monotonic() < end and read_running_study(path).runs:
                time.sleep(_WATCH_SECONDS / 10)  # the maximum delay after the end of the study
            click.clear()  # clears only a terminal


def _show_runs(study: Study | None, path: Path, reuse_from: tuple[Path, ...], html: Path | None, as_json: bool) -> bool:
    """Print the progress of a result and write its page.  Return True if a process is computing the result."""
    from evogt_study.analysis.runs import count_status
    from evogt_study.methods.current_run import describe_running
    from evogt_study.operations.progress import read_running_study

    computation, begun = read_running_study(path), description_path(path).exists()
    if not as_json and (begun or computation.runs):
        print_line(f"{path}: {computation.describe()}")
        display.print_lines(f"  running {line}" for line in describe_running(runs_folder(path))[:10])
    # no study is on disk before the first run has finished
    waits, done = computation.runs and not begun and not path.exists(), None
    with ExitStack() as stack:
        runs: Mapping[str, xr.Dataset] = {}
        if study is not None and not waits:
            from evogt_study.results.finished import read_finished_runs

            done = read_finished_runs(study, path, others=reuse_from)
            if done is None:
                raise InputError(f"no result file {path}. Create it with `evogt run`.")
            display.warn_if_unfinished(path)
            runs = done.to_datasets()
        elif not waits:
            runs = stack.enter_context(inputs.open_runs_so_far(path, ()))
        found = {phase: count_status(data) for phase, data in runs.items()}
        study_text = "".join(str(data.attrs.get("study", "?")) for data in runs.values())
        software = {phase: list(display.format_software(data)) for phase, data in runs.items()}
    if as_json:
        state = {"running": computation.runs, "complete": not waits and not description_path(path).exists()}
        unplanned = 0 if done is None else done.count_unplanned()
        display.print_json(
            {"result": str(path), **state, "unplanned": unplanned, "phases": display.describe_runs_as_json(found)}
        )
    for phase, each in {} if as_json else found.items():
        print_line(f"{display.format_phase(path, phase)}: {each.describe()}")
        display.print_lines(
            [*display.format_missing(each), *display.format_messages(path, phase, each, study_text), *software[phase]]
        )
    if done is not None and not as_json:
        for phase in (each.name for each in done.study.phases if each.name not in found):
            print_line(f"{path} ({phase}): not run because its {next(iter(found))} is not finished")
        inputs.print_unplanned(path, done)
    if html is not None and found:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        write_report(path, html, f"{computation.describe()}; seen at {now}" if computation.runs else "")
    elif html is not None:
        display.print_warning([f"{html} is not written: no run is finished yet"])
    return computation.runs


@inputs.make_command([inputs.argument("folder", "[FOLDER]", default=Path("results"))], [
    option("-w --where", "CONDITIONS", "List only results with runs that meet all conditions, and count only these "
           "runs: 'n>40 and method=own'.", default=""),
    inputs.JSON,
], name="list")  # fmt: skip
def list_results(folder: Path, where: str, as_json: bool) -> None:
    """List the results in a folder, by default in results.

    Each row has the runs by status, the date and the axes.  A condition compares a parameter, a variable with one value
    for each run, `status`, `method` or `study`.
    """
    from evogt_study.analysis.tables import render_table
    from evogt_study.operations.listing import list_results as listed
    from evogt_study.operations.listing import read_conditions

    found = list(listed(folder, read_conditions(where)))
    display.print_warning(each for each in found if isinstance(each, str))
    results = [each for each in found if not isinstance(each, str)]
    if as_json:
        rows = [
            {
                "file": str(each.path), "study": each.study, "method": each.method, "date": each.date,
                "complete": each.is_finished, "axes": each.axes, **display.describe_runs_as_json({"": each.runs})[""],
            }
            for each in results
        ]  # fmt: skip
        display.print_json({"folder": str(folder), "where": where, "results": rows})
    elif results:
        body = [
            [
                str(each.path), f"{each.date[:10]} {each.date[11:16]}",
                each.runs.describe() + ("" if each.is_finished else ", not finished"),
                " x ".join(f"{size} {name}" for name, size in each.axes.items()),
            ]
            for each in results
        ]  # fmt: skip
        print_text(render_table(["result", "date (UTC)", "matching runs" if where else "runs", "axes"], body, "text"))
    else:
        print_line(f"no results{' that meet the conditions' if where else ''} in {folder}")


PLACES = inputs.argument("places", "[PATH]...", nargs=-1)


@click.group()
def store() -> None:
    """List or prune runs that studies no longer include.

    `evogt run` moves such runs to the store beside a result when a study has changed.  If the study includes these runs
    again, `evogt run` reuses them.
    """


@store.command("list", params=[PLACES])
def list_store(places: tuple[Path, ...]) -> None:
    """Print the runs in the store of each PATH, a result or a folder of results.  [default: results]

    Each change of the study has one line with the time and the reason.
    """
    from evogt_study.results.finished import read_store

    found = [read_store(result) for result in _find_results(places)]
    for each in found:
        print_line(_describe_kept(each))
        for path, keys, about, size in each.shards:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))
            kept = f"{format_count(len(keys), 'run')}, {_format_size(size)}"
            print_line(f"  {when}  {kept}: {about or 'no reason recorded'}")
        for error in each.unread:
            print_line(f"  {error}")
    if not found:
        print_line("no runs are kept")


@store.command("prune", params=[
    PLACES,
    option("--older-than", "TIME",
           "Remove only runs that moved to the store longer ago: 90 (seconds), 30m, 11h30m, 2d."),
])  # fmt: skip
def prune_places(places: tuple[Path, ...], older_than: str | None) -> None:
    """Remove the store of each PATH, a result or a folder of results.

    Removed runs cannot be restored.
    """
    from evogt_study.results.finished import prune_store
    from evogt_study.storage.lease import lock_result
    from evogt_study.workers.signals import parse_seconds

    if not places:
        raise InputError("`PATH` must be a result or a folder, got none. To list the stores, run `evogt store list`.")
    before = None if older_than is None else time.time() - parse_seconds(older_than, "--older-than")
    for result in _find_results(places):
        with lock_result(result):  # also without a store, to remove the files of a killed command
            if store_folder(result).is_dir():
                print_line(f"removed {_describe_kept(prune_store(result, before))}")
            else:
                print_line(f"no runs are kept beside {result}")


def _find_results(places: tuple[Path, ...]) -> Iterator[Path]:
    """Yield all results that may have a store.  Raises InputError for a path without a result and a store."""
    for place in places or (Path("results"),):
        if place.is_dir() or not places:  # the default folder may be missing
            yield from (path.with_suffix("") for path in sorted(place.glob(f"*{STORE}")) if path.is_dir())
        elif store_folder(place).is_dir() or place.is_file():
            yield place
        else:
            message = f"`PATH` must be a result or a folder, got {place}, which does not exist"
            raise InputError(f"{message}. To list the stores, run `evogt store list`.")


def _describe_kept(found: StoreContent) -> str:
    return f"{found.folder}: {format_count(found.runs, 'run')}, {_format_size(sum(size for *_, size in found.shards))}"


def _format_size(count: int) -> str:
    """Format a number of bytes with a unit such as "kB" or "MB"."""
    unit = max((unit for unit in range(4) if count >= 1000**unit), default=0)
    return f"{count / 1000**unit:.3g} {('bytes', 'kB', 'MB', 'GB')[unit]}"
