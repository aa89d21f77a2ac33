"""The command `evogt try`."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study.cli.chosen_study import read_study
from evogt_study.cli.exit_codes import SOME_FAILED
from evogt_study.cli.options import study_file_argument
from evogt_study.operations.replay import tried
from evogt_study.study.case_space import read_point
from evogt_study.text import tell, tell_lines


@click.command("try")
@study_file_argument
@click.option("--at", "points", multiple=True, metavar="AXIS=VALUE,...", help="The case.  [default: the first]")
def try_case(study_file: Path, points: tuple[str, ...]) -> None:
    """Compute one case of a study here, and print what it returns; a traceback where it raises.  Writes nothing.

    Axes that --at leaves out have their first value.  Exit code 1 where the case fails.
    """
    made = tried(read_study(study_file), read_point(",".join(points)))
    for line in made.told():
        tell(line)
    if made.raised:
        tell_lines(made.raised.rstrip("\n"), err=True)
        raise SystemExit(SOME_FAILED)
