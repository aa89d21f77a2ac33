"""The page of a result, for the commands that write it."""

from __future__ import annotations

from pathlib import Path

from evogt_study.cli.chosen_runs import runs_so_far
from evogt_study.cli.plot_files import write
from evogt_study.errors import InputError
from evogt_study.publishing.report import report as page
from evogt_study.results.netcdf import with_numbers


def check_page(path: Path, option: str) -> None:
    """Raise InputError unless `path`, which the option gave, is named as a page."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"`{option}` must end in .html, got {path.name!r}")


def write_report(file: Path, path: Path, state: str = "") -> None:
    """Write the page of the result `file`, or of what is finished of it, to `path`; state: of its computation."""
    with runs_so_far(file) as runs:
        made = page(file, {phase: with_numbers(data) for phase, data in runs.items()}, state)
    write(path, made.encode())
