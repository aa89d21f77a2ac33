"""The command `evogt advise`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evogt_study.cli.inputs import Command, option, study_file_argument
from evogt_study.text import print_line

if TYPE_CHECKING:
    from evogt_study.pde.advise import Advice

WORTH = 0.9
"""Factor of the error above which a change is not worth its cost."""
CAUSES = {
    "error_full_space": "full space",
    "error_retained": "retained space",
    "error_evolution": "evolution",
    "error_time": "time",
}


@click.command(
    cls=Command,
    groups={"What to compute": "setups no_check"},
    short_help="Name the parameter that limits the error of a study, and the gain of a change.",
)
@study_file_argument
@option("--setups", "N", "Number of setups to compute.", type=click.IntRange(1), default=6)
@option("--no-check", "", "Predict the gain and do not compute the changed runs.")
def advise(study_file: Path, setups: int, no_check: bool) -> None:
    """Name the parameter that limits the error of a study, and the gain of a change.

    The parameters are N, tau, quadrature and dt.  A few setups are computed with the first seed, with the error budget.
    The change with the largest predicted gain is then computed as a check.  Writes nothing.
    """
    from evogt_study.cli.inputs import read_study
    from evogt_study.pde.advise import advise as advice_on

    for advice in advice_on(read_study(study_file), setups, check=not no_check):
        for line in _describe(advice):
            print_line(line)


def _describe(advice: Advice) -> list[str]:
    from evogt_study.schema.values import text_label

    where = ", ".join(f"{name} = {text_label(value)}" for name, value in advice.at.items())
    parts = ", ".join(f"{text} {advice.parts[name]:.1e}" for name, text in CAUSES.items())
    lines = [f"{where or 'the study'}: error {advice.error:.2e}", f"  {parts}"]
    change = ", ".join(f"{name} = {text_label(value)}" for name, value in advice.change.items())
    if advice.predicted > WORTH * advice.error:
        return [*lines, f"  no single change gains much: {change} is predicted to give {advice.predicted:.2e}"]
    line = f"  use {change}: predicted {advice.predicted:.2e}, {advice.error / advice.predicted:.1f} times less"
    if advice.measured is not None:
        line += f"; computed {advice.measured:.2e}"
    return [*lines, line]
