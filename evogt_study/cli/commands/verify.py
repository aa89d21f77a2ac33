"""The command `evogt verify`."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study.analysis.completeness import completeness
from evogt_study.cli import result_display
from evogt_study.cli.chosen_runs import check_finished
from evogt_study.cli.exit_codes import SOME_FAILED
from evogt_study.cli.options import code_option
from evogt_study.operations.verify import verify as verified
from evogt_study.printable import tell


@click.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option("--sample", type=click.IntRange(0), default=3, show_default=True, help="Runs to compute again.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Which runs are drawn.")
@code_option
def verify(file: Path, sample: int, seed: int, code: Path | None) -> None:
    """Check a result: checksums, schema, case keys, nothing missing, and a sample of its runs computed again.

    Runs that failed or diverged are counted; they are outcomes.  Exit code 1 where anything is wrong.
    """
    check_finished(file)
    made = verified(file, sample=sample, seed=seed, code=code)
    for phase, data in made.phases.items():
        tell(f"{file} ({phase}): {result_display.counted(completeness(data))}")
    for line in made.recomputed:
        tell(f"  computed again: {line}")
    for line in made.findings:
        tell(f"  wrong: {line}")
    if made.left_out:
        tell(f"  {made.left_out}")
    tell(f"{file}: " + ("all well" if made.well else f"{len(made.findings)} wrong"))
    if not made.well:
        raise SystemExit(SOME_FAILED)
