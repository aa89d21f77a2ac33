"""The command `evogt merge`."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study.cli.messages import print_result, tell_unfinished
from evogt_study.operations.merge import merge as merged
from evogt_study.study.study import Study


@click.command()
@click.argument("files", metavar="A.nc B.nc ...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="New file for the joined result.")
@click.option(
    "--study",
    "study_file",
    metavar="STUDY.toml",
    type=click.Path(path_type=Path),
    help="Study that asks for everything.  [default: that of a file whose axes have all values]",
)
def merge(files: tuple[Path, ...], output: Path, study_file: Path | None) -> None:
    """Join results of one study that were computed apart, for example some seeds on each machine.

    The same run must have the same values everywhere, bit for bit; one that is ok is taken before one that is not.
    Exit code 1 where runs of the joined result are not ok; `evogt run STUDY.toml -o OUTPUT` computes those not run.
    """
    merged(files, output, study=None if study_file is None else Study.from_file(study_file))
    for each in files:
        tell_unfinished(each)
    print_result(output)
