"""The runs that a command was given, from a finished result or from one that is being written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import xarray as xr

from evogt_study.cli.messages import tell_unfinished
from evogt_study.errors import InputError
from evogt_study.results.netcdf import open_result, opened_so_far
from evogt_study.schema.variables import EARLIER_PHASES
from evogt_study.storage.paths import description


@contextmanager
def runs_so_far(path: Path, variables: Sequence[str] | None = None) -> Iterator[Mapping[str, xr.Dataset]]:
    """A result by phase, of which what is asked for is read; or what is finished of one that is being written.

    variables: those that are needed of the latter beside the runs' bookkeeping; None: all.
    """
    if not path.exists() and not description(path).exists():
        raise no_result(path)
    with opened_so_far(path, variables) as runs:
        tell_unfinished(path)
        yield runs


def runs_of_phase(path: Path, phase: str) -> xr.Dataset:
    """The runs of one phase, as a result has them, or as far as they are finished."""
    # a result that is being extended has finished runs beside it, which `runs_so_far` adds
    if path.exists() and not description(path).exists():
        data = open_result(path, phase)
        click.get_current_context().call_on_close(data.close)  # not left to whichever thread collects it
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
    """Raise InputError for a result that is not written yet: what needs whole results does not read shards."""
    for path in paths:
        if not path.exists() and description(path).exists():
            raise InputError(f"`FILE` must be a finished result, got {path}, which is not; `evogt run` goes on with it")


def no_result(path: Path) -> InputError:
    """Make the error for a result that does not exist."""
    return InputError(f"`FILE` must be a result, got {path}, which does not exist; `evogt run` makes it")
