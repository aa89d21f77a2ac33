"""The command `evogt replay`."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study.cli.exit_codes import SOME_FAILED
from evogt_study.cli.messages import tell_unfinished
from evogt_study.cli.options import code_option
from evogt_study.operations.replay import replay as replayed
from evogt_study.study.case_space import read_point
from evogt_study.text import tell, tell_lines


@click.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option("--at", "points", multiple=True, metavar="AXIS=VALUE,...", help="The case: a value for each axis.")
@click.option("--pilot", is_flag=True, help="A case of the pilot.")
@code_option
def replay(file: Path, points: tuple[str, ...], pilot: bool, code: Path | None) -> None:
    """Compute one case of a result again, here, and compare it bit for bit; a traceback where the run raises.

    Axes of one value may be left out of --at.  Exit code 1 where anything differs, or the run fails (again).
    """
    made = replayed(file, read_point(",".join(points)), pilot=pilot, code=code)
    tell_unfinished(file)
    tell(f"{file} ({'pilot' if pilot else 'study'}): {made.point}, case {made.case.key}")
    for line in made.told():
        tell(line)
    if made.raised:
        tell_lines(made.raised.rstrip("\n"), err=True)
    if not made.equal:
        raise SystemExit(SOME_FAILED)
