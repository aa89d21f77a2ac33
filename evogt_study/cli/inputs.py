"""Read the study, the result or the runs that the arguments of a command name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evogt_study.cli.display import tell_unfinished, warnings_at_the_end
from evogt_study.errors import DoubtWarning, InputError
from evogt_study.storage.paths import default_result, description, store_folder
from evogt_study.text import tell

if TYPE_CHECKING:
    import xarray as xr

    from evogt_study.results.finished import Finished
    from evogt_study.study.study import Study


@contextmanager
def runs_so_far(path: Path, variables: Sequence[str] | None = None) -> Iterator[Mapping[str, xr.Dataset]]:
    """Open a result by phase, or the finished runs of a result that is being written.

    variables: names to read of an unfinished result besides the run metadata; None: all.
    """
    from evogt_study.results.netcdf import opened_so_far

    if not path.exists() and not description(path).exists():
        raise no_result(path)
    with opened_so_far(path, variables) as runs:
        tell_unfinished(path)
        yield runs


def runs_of_phase(path: Path, phase: str) -> xr.Dataset:
    """Return the runs of one phase of a result, or its finished runs if it is being written."""
    from evogt_study.results.netcdf import open_result
    from evogt_study.schema.variables import EARLIER_PHASES

    # `runs_so_far` adds the finished runs beside a result that is being extended
    if path.exists() and not description(path).exists():
        data = open_result(path, phase)
        click.get_current_context().call_on_close(data.close)  # not in the thread that collects garbage
        return data
    with runs_so_far(path) as runs:
        found = runs.get(phase)
    if found is None:
        missing = f"whose {next(iter(runs))} is not finished"
        if phase in EARLIER_PHASES:
            missing = f"which has no {phase}; leave out --{phase}"
        raise InputError(f"`FILE` must have runs of the {phase}, got {path}, {missing}")
    return found


def check_finished(*paths: Path) -> None:
    """Raise InputError for an unfinished result: commands that need whole results do not read shards."""
    for path in paths:
        if not path.exists() and description(path).exists():
            raise InputError(f"`FILE` must be a finished result, got {path}, which is not; `evogt run` goes on with it")


def no_result(path: Path) -> InputError:
    """Make the error for a result that does not exist."""
    return InputError(f"`FILE` must be a result, got {path}, which does not exist; `evogt run` makes it")


def read_study(study_file: Path) -> Study:
    """Read the study, and print a line for each accuracy warning."""
    from evogt_study.study.study import Study

    with warnings_at_the_end(DoubtWarning):
        return Study.from_file(study_file)


def result_of(study: Study, output: Path | None) -> Path:
    """Return `output` or the default result file of a study."""
    return output or default_result(study.name)


def print_unasked(path: Path, done: Finished | None) -> None:
    """Print the number of runs that the study does not include any more, which `evogt run` keeps."""
    if done is not None and done.unasked:
        tell(
            f"{path} holds {done.unasked:,} finished runs that {done.study.file} does not ask for now "
            f"({done.reader.changed}); `evogt run` keeps them in {store_folder(path)}"
        )
