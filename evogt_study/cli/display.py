"""Print the progress of a study, the runs of a result and warnings as lines of text."""

from __future__ import annotations

import ast
import json
import shlex
import shutil
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evogt_study.cli.main import FAILED
from evogt_study.storage.files import description_path
from evogt_study.text import CLEAR_LINE, escape_text, format_count, print_line

if TYPE_CHECKING:
    import xarray as xr

    from evogt_study.errors import Completeness
    from evogt_study.operations.progress import Listener, ProgressEvent
    from evogt_study.results.provenance import RunSummary

LINE_SECONDS = 5.0
MAX_MESSAGES = 10


def make_listener(quiet: bool) -> Listener | None:
    """Create a listener that prints progress on standard error, or return None if `quiet` is true."""
    if quiet or sys.stderr is None:  # a process without standard error
        return None
    if sys.stderr.isatty():
        return _draw_bar
    last: dict[str, float] = {}

    def print_progress(event: ProgressEvent) -> None:
        from evogt_study.operations.progress import format_progress

        now = time.monotonic()
        # print one line for a phase without new runs
        news = event.phase not in last or (event.final and event.done > 0)
        if news or now - last[event.phase] >= LINE_SECONDS:
            last[event.phase] = now
            with suppress(OSError):  # an error of the log, such as a full disk, must not stop the runs
                print_line(format_progress(event), err=True)

    return print_progress


def _draw_bar(event: ProgressEvent) -> None:
    """Draw the progress bar of a phase in the last line of a terminal, in red if a run has failed."""
    from evogt_study.operations.progress import BAR_WIDTH, format_bar, format_progress

    bar = click.style(format_bar(event), fg="red" if event.failed else "green")
    text = escape_text(format_progress(event))[: shutil.get_terminal_size().columns - BAR_WIDTH - 2]
    with suppress(OSError):  # a closed terminal must not stop the runs
        click.echo(f"{CLEAR_LINE}{bar} {text}", err=True, nl=event.final)


def format_phase(path: Path, phase: str) -> str:
    """Return the path of a result, with the name of a phase except main."""
    return str(path) if phase == "main" else f"{path} ({phase})"


def format_missing(found: Completeness) -> Iterator[str]:
    """Yield lines with the number of runs that are not ok, or not run, for each axis value."""
    for axis in found.lacking:
        parts = [f"{value}: {bad}/{planned}" for value, bad, planned in axis.values]
        yield f"  {axis.state} by {axis.axis}: {', '.join(parts)}" + (f" and {axis.more} more" if axis.more else "")


def format_messages(path: Path, phase: str, found: Completeness, study: str) -> Iterator[str]:
    """Yield the error messages, each with an example, and the command that shows the traceback of the first example."""
    for message in found.messages[:MAX_MESSAGES]:
        at = ", ".join(f"{name}={value}" for name, value in message.at.items())
        yield f"  {message.count} x {message.text} (e.g. {at})"
    # a shell cannot pass a value with control characters
    if not study or not found.messages or not "".join(found.messages[0].at.values()).isprintable():
        return
    if '"__main__:' in study:  # no file holds the function
        values: dict[str, Any] = dict(found.messages[0].at)
        for name, text in found.messages[0].at.items():
            with suppress(SyntaxError, ValueError):  # any other value is a string
                values[name] = ast.literal_eval(text)
        yield f"  traceback, in the script or notebook: evs.try_case(study, {values})"
    else:
        at = " ".join(shlex.quote(f"{name}={value}") for name, value in found.messages[0].at.items())
        yield f"  traceback: evogt try {shlex.quote(str(path))} {at}{'' if phase == 'main' else f' --{phase}'}"


def format_software(data: xr.Dataset) -> Iterator[str]:
    """Yield the number of runs for each set of software versions if there are several sets."""
    from evogt_study.analysis.runs import KEYS, count_runs, number_runs
    from evogt_study.results.netcdf import read_software_sets

    sets = read_software_sets(data)
    if len(sets) < 2:
        return
    runs, numbers = number_runs(data[KEYS]), data["run_software"].values
    for number, entry in enumerate(sets):
        count = format_count(count_runs(runs[numbers == number]), "run")
        yield f"  {count} by " + ", ".join(f"{name} {version}" for name, version in sorted(entry.items()))


def describe_runs_as_json(phases: Mapping[str, Completeness]) -> dict[str, Any]:
    """Return the run counts and the error messages of each phase in JSON types."""
    from evogt_study.errors import Status

    return {
        phase: {
            "cases": found.points,
            "runs": found.planned,
            "counts": {state.name: found.counts.get(state.name, 0) for state in Status},
            "messages": [{"text": each.text, "runs": each.count, "at": dict(each.at)} for each in found.messages],
        }
        for phase, found in phases.items()
    }


def print_json(document: Mapping[str, Any]) -> None:
    """Print a document as JSON in ASCII, with null for NaN and infinite numbers."""

    def convert(value: Any) -> Any:
        if isinstance(value, Mapping):
            return dict(value)
        if not hasattr(value, "tolist") or (value.dtype.kind in "Mm" and not value.ndim):
            return str(value)
        return value.tolist()  # an array or a scalar of NumPy

    finite = json.loads(json.dumps(document, default=convert), parse_constant=lambda _: None)
    click.echo(json.dumps(finite, indent=2))


def print_lines(lines: Iterable[str]) -> None:
    """Print each string as one line, with escapes for control characters."""
    for line in lines:
        print_line(line)


def print_warning(lines: Iterable[str]) -> None:
    """Print lines on standard error, each after the text "evogt: "."""
    for line in lines:
        print_line(f"evogt: {line}", err=True)


@contextmanager
def print_warnings_at_end(*kinds: type[Warning]) -> Iterator[None]:
    """Collect the warnings of the block, and print each different warning as one line at the end."""
    with warnings.catch_warnings(record=True) as caught:
        for kind in kinds:
            # by default, Python shows only one warning for each line of code
            warnings.simplefilter("always", kind)
        yield
    print_warning(dict.fromkeys(str(warning.message) for warning in caught))


def print_result(
    path: Path, summary: RunSummary | None = None, *, quiet: bool = True, strict: bool = False, as_json: bool = False,
) -> None:  # fmt: skip
    """Print the number of runs by status.  With `strict`, exit with code 1 if a run is not ok."""
    from evogt_study.operations.progress import Progress

    if summary is None:
        from evogt_study.operations.complete import summarise_runs
        from evogt_study.results.netcdf import open_phases

        with open_phases(path) as groups:
            summary = summarise_runs(groups)
    found = summary.phases
    listener = make_listener(quiet)
    for phase, each in reversed(found.items()):  # the pilot first
        # only for an already complete result, because other results have shown their progress
        Progress(phase, each.planned, each.planned, listener, failed=each.planned - each.ok).report(final=True)
    failed = [phase for phase, each in found.items() if each.ok < each.planned]
    if as_json:
        print_json({"result": str(path), "complete": True, "phases": describe_runs_as_json(found)})
    for phase, each in found.items():
        if phase == "main" or phase in failed:
            if not as_json:
                print_line(f"{format_phase(path, phase)}: {each.describe()}")
                print_lines(format_messages(path, phase, each, summary.study))
            print_warning(summary.doubts[phase])
    if failed and strict:
        raise SystemExit(FAILED)


def warn_if_unfinished(path: Path) -> None:
    """Print a warning if a result is not finished."""
    if description_path(path).exists():
        print_warning([f"{path} is not finished. These are its runs so far."])
