"""Options and arguments that several commands share, and the studies, results and runs that they name.

`evogt --help` imports this module, so it imports at its top only Click and the errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evogt_study.errors import DoubtWarning, InputError
from evogt_study.text import tell
from evogt_study.workers.options import RunOptions, as_option

if TYPE_CHECKING:
    import xarray as xr

    from evogt_study.results.finished import Finished
    from evogt_study.study.study import Study

study_file_argument = click.argument("study_file", metavar="STUDY.toml", type=click.Path(path_type=Path))

result_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Result file.  [default: results/NAME.nc]"
)

_KINDS: Mapping[str, Mapping[str, Any]] = {
    "int | None": {"type": int},
    "float | None": {"type": float},
    "str | int | None": {"type": str},
    "bool": {"is_flag": True},
    "Sequence[str | Path]": {"type": click.Path(path_type=Path), "multiple": True},
}
"""How the command line reads a field of `RunOptions`, by its annotation."""


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the fields of `RunOptions` as options to a command."""
    for each in reversed(fields(RunOptions)):
        named = {"metavar": each.metadata["metavar"]} if each.metadata["metavar"] else {}
        command = click.option(
            as_option(each.name), default=each.default, help=each.metadata["help"], **named, **_KINDS[str(each.type)]
        )(command)
    return command


reuse_from_option = click.option(
    "--reuse-from",
    multiple=True,
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Reuse the runs of this result, or of the results in this folder.",
)

over_option = click.option(
    "--over", default=None, help="Axes whose points are the sample, separated by commas.  [seed]"
)

code_option = click.option(
    "--code",
    metavar="FILE.py",
    type=click.Path(path_type=Path),
    help="Where the code of the study is: a file, a folder or a module.  [default: beside the study]",
)


def names(text: str) -> tuple[str, ...]:
    """Split names at commas and return each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def task_of(text: str) -> tuple[int, int]:
    """Read the task of an array: "7/200" is the seventh of 200.  Raises InputError."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"`--task` must be I/N, with I from 1 to N, got {text!r}")
    return int(match[1]), int(match[2])


def check_one_of(
    workers: int | None, scheduler: str | None, scheduler_file: Path | None, cluster: str | None = None
) -> None:
    """Raise InputError if more than one place to compute is given."""
    if sum(option is not None for option in (workers, scheduler, scheduler_file, cluster)) > 1:
        raise InputError(
            "`--workers`, `--scheduler`, `--scheduler-file` and `--cluster` must not be combined, got more than one"
        )


@contextmanager
def runs_so_far(path: Path, variables: Sequence[str] | None = None) -> Iterator[Mapping[str, xr.Dataset]]:
    """Open a result by phase, or the finished runs of a result that is being written.

    variables: names to read of an unfinished result besides the run metadata; None: all.
    """
    from evogt_study.cli.display import tell_unfinished
    from evogt_study.results.netcdf import opened_so_far
    from evogt_study.storage.paths import description

    if not path.exists() and not description(path).exists():
        raise no_result(path)
    with opened_so_far(path, variables) as runs:
        tell_unfinished(path)
        yield runs


def runs_of_phase(path: Path, phase: str) -> xr.Dataset:
    """Return the runs of one phase of a result, or its finished runs if it is being written."""
    from evogt_study.results.netcdf import open_result
    from evogt_study.schema.variables import EARLIER_PHASES
    from evogt_study.storage.paths import description

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
    from evogt_study.storage.paths import description

    for path in paths:
        if not path.exists() and description(path).exists():
            raise InputError(f"`FILE` must be a finished result, got {path}, which is not; `evogt run` goes on with it")


def no_result(path: Path) -> InputError:
    """Make the error for a result that does not exist."""
    return InputError(f"`FILE` must be a result, got {path}, which does not exist; `evogt run` makes it")


def read_study(study_file: Path) -> Study:
    """Read the study, and print a line for each accuracy warning."""
    from evogt_study.cli.display import warnings_at_the_end
    from evogt_study.study.study import Study

    with warnings_at_the_end(DoubtWarning):
        return Study.from_file(study_file)


def result_of(study: Study, output: Path | None) -> Path:
    """Return `output` or the default result file of a study."""
    from evogt_study.storage.paths import default_result

    return output or default_result(study.name)


def print_unasked(path: Path, done: Finished | None) -> None:
    """Print the number of runs that the study does not include any more, which `evogt run` keeps."""
    from evogt_study.storage.paths import store_folder

    if done is not None and done.unasked:
        tell(
            f"{path} holds {done.unasked:,} finished runs that {done.study.file} does not ask for now "
            f"({done.reader.changed}); `evogt run` keeps them in {store_folder(path)}"
        )
