"""Options and arguments that several commands share, and their values.  Imports only Click and the errors."""

from __future__ import annotations

import re
from pathlib import Path

import click

from evogt_study.errors import InputError

study_file_argument = click.argument("study_file", metavar="STUDY.toml", type=click.Path(path_type=Path))

result_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Result file.  [default: results/NAME.nc]"
)

from_option = click.option(
    "--from",
    "others",
    multiple=True,
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="A result, or a folder of results, from which finished runs are taken too.",
)

over_option = click.option(
    "--over", default=None, help="Axes whose points are the sample, separated by commas.  [seed]"
)

code_option = click.option(
    "--code",
    metavar="FILE.py",
    type=click.Path(path_type=Path),
    help="The study's own Python file, to run it.  [default: the one beside the study, if it computed the result]",
)


def names(text: str) -> tuple[str, ...]:
    """Split names at commas and return each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def part_of(text: str) -> tuple[int, int]:
    """Read the task of an array: "7/200" is the seventh of 200.  Raises InputError."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"`--part` must be I/N, with I from 1 to N, got {text!r}")
    return int(match[1]), int(match[2])


def check_one_of(
    workers: int | None, scheduler: str | None, scheduler_file: Path | None, cluster: str | None = None
) -> None:
    """Raise InputError if more than one place to compute is given."""
    if sum(option is not None for option in (workers, scheduler, scheduler_file, cluster)) > 1:
        raise InputError(
            "`--workers`, `--scheduler`, `--scheduler-file` and `--cluster` must not be combined, got more than one"
        )
