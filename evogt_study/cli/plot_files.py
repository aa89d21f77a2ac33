"""Pictures of a result as files: the one that is asked for, or all that fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import xarray as xr

from evogt_study.errors import InputError
from evogt_study.plots import catalogue as kinds
from evogt_study.plots.style import FORMATS, encoded
from evogt_study.publishing.page import Drawn
from evogt_study.storage.atomic import check_writable, write_file
from evogt_study.text import shown


class Written(NamedTuple):
    """A picture and its file."""

    path: Path
    drawn: Drawn


def draw_files(
    data: xr.Dataset, result: Path, kind: str | None, wish: kinds.Wish, output: Path | None
) -> Iterator[Written | str]:
    """Draw the kind of picture, or without one all that fit, and write each; yields what was written.

    Files are named after `output`, or after `result` beside it as PNG; where there are several, the picture's name is
    added.  Notes that are not wished for in the picture stand in a text beside it.  A picture that fits, but not with
    the wishes, yields why, unless it is the last hope; a result without a solution error yields that, unless it is told
    what to draw.  Raises InputError and ResultError.
    """
    base = output or result.with_suffix(".png")
    form = base.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise InputError(f"`--output` must end in .{', .'.join(FORMATS)}, got {base.name!r}")
    choices = [(kind, wish)] if kind is not None else _fitting(data, wish)
    if kind is None and wish.variable is None and kinds.lacks_error(data):
        yield f"{kinds.NO_SOLUTION_ERROR}; --variable draws other numbers"
    failed: list[InputError] = []
    for name, its_wish in choices:
        try:
            drawn = kinds.drawn(data, name, its_wish)
        except InputError as error:
            failed.append(error)
            if len(failed) == len(choices):
                raise failed[0] from None
            yield f"{name} is left out: {error}"
            continue
        alone = len(choices) == 1 and output is not None
        path = base if alone else base.with_stem(f"{base.stem}_{drawn.name}")
        write(path, encoded(drawn.figure, form))
        if not its_wish.notes:
            write(path.with_suffix(".txt"), f"{shown(f'{drawn.title}.  {drawn.caption}')}\n".encode())
        yield Written(path, drawn)


def _fitting(data: xr.Dataset, wish: kinds.Wish) -> Sequence[tuple[str, kinds.Wish]]:
    """The kinds that fit.  Raises InputError where none does."""
    fitting = kinds.fitting(data, wish)
    if not fitting:
        kinds.drawn(data, "distribution", wish)  # says what is missing
    return [(choice.kind, replace(wish, variable=choice.variable)) for choice in fitting]


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all.  Raises ResultError where the disk refuses."""
    check_writable(path)
    write_file(path, content, tidy=True)
