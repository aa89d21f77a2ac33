"""The command `evogt verify`."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study.analysis.completeness import completeness
from evogt_study.cli.exit_codes import SOME_FAILED
from evogt_study.cli.messages import tell_unfinished
from evogt_study.cli.options import code_option
from evogt_study.cli.result_display import format_counts
from evogt_study.operations.verify import Verification
from evogt_study.operations.verify import verify as verified
from evogt_study.publishing.publish import verify_deposit
from evogt_study.text import tell


@click.command()
@click.argument("file", metavar="FILE.nc|FOLDER", type=click.Path(path_type=Path))
@click.option(
    "--sample", type=click.IntRange(0), default=3, show_default=True, help="Runs of a result to compute again."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Which runs are drawn.")
@code_option
def verify(file: Path, sample: int, seed: int, code: Path | None) -> None:
    """Check a result: checksums, schema, case keys, nothing missing, and a sample of its runs computed again.

    Of a folder that `evogt publish` wrote, every file is held against its checksum first, then each result is checked.
    Runs that failed or diverged are counted; they are outcomes.  Exit code 1 where anything is wrong.
    """
    if file.is_dir():
        made = list(map(_told, verify_deposit(file, sample=sample, seed=seed, code=code)))
    else:
        found = verified(file, sample=sample, seed=seed, code=code)
        tell_unfinished(file)
        made = [_told(found)]
    if not all(made):
        raise SystemExit(SOME_FAILED)


def _told(made: Verification) -> bool:
    """Print the outcome of one check; True where all is well."""
    for phase, data in made.phases.items():
        tell(f"{made.path} ({phase}): {format_counts(completeness(data))}")
    for line in made.recomputed:
        tell(f"  computed again: {line}")
    for line in made.findings:
        tell(f"  wrong: {line}")
    if made.left_out:
        tell(f"  {made.left_out}")
    tell(f"{made.path}: " + ("all well" if made.well else f"{len(made.findings)} wrong"))
    return made.well
