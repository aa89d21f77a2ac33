"""The command `evogt concat`."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study.cli.chosen_runs import check_finished
from evogt_study.cli.messages import print_result
from evogt_study.errors import InputError
from evogt_study.operations.concat import concat as joined


@click.command()
@click.argument("files", metavar="LABEL=A.nc LABEL=B.nc ...", nargs=-1, required=True)
@click.option("--dim", default="problem", show_default=True, help="Name of the new dimension.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="New file for the joined result.")
def concat(files: tuple[str, ...], dim: str, output: Path) -> None:
    """Join results of different studies along a new dimension, on which each has its LABEL: a word, or a number.

    Constants that differ become coordinates along it; what cannot be joined is named.  `summary`, `plot`, `report` and
    the other commands that read results read the file; nothing can be run for it, since it is that of no one study.
    """
    results = _labelled(files)
    check_finished(*results.values())
    joined(_with_numbers(results), dim, output=output)
    print_result(output)


def _labelled(files: tuple[str, ...]) -> dict[str, Path]:
    """The files by their labels; without one a file has its own name.  Raises InputError where two have the same."""
    results: dict[str, Path] = {}
    for each in files:
        label, sign, file = each.partition("=")
        path = Path(file if sign else each)
        label = label if sign else path.stem
        if label in results:
            raise InputError(f"`FILES` must have different labels, got {label} twice; write LABEL=FILE.nc")
        results[label] = path
    return results


def _with_numbers(results: dict[str, Path]) -> dict[str, Path] | dict[int, Path] | dict[float, Path]:
    """The same, with labels that are numbers if all of them are."""
    for number in (int, float):  # int first: whole numbers stay whole
        try:
            return {number(label): path for label, path in results.items()}
        except ValueError:
            continue
    return results
