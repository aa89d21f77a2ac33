"""The command `evogt advise`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evogt_study.cli.inputs import study_file_argument
from evogt_study.text import tell

if TYPE_CHECKING:
    from evogt_study.pde.advise import Advice

WORTH = 0.9
"""A change that leaves more of the error than this is not worth its cost."""
CAUSES = {
    "error_full_space": "full space",
    "error_retained": "retained space",
    "error_evolution": "evolution",
    "error_time": "time",
}


@click.command(short_help="Tell what limits the error of a study, what to change, and what that gains.")
@study_file_argument
@click.option("--cells", type=click.IntRange(1), default=6, show_default=True, help="Points of the axes to look at.")
@click.option("--no-check", is_flag=True, help="Predict only; do not compute the changed runs.")
def advise(study_file: Path, cells: int, no_check: bool) -> None:
    """Tell which of N, tau, quadrature and dt limits the error, what to change, and what that gains.

    A few points of the study are computed with the first seed, each with the budget of its error, and then with the
    change that is predicted to gain most, to see whether the prediction holds.  Writes nothing.
    """
    from evogt_study.cli.inputs import read_study
    from evogt_study.pde.advise import advise as advice_on

    for advice in advice_on(read_study(study_file), cells, check=not no_check):
        for line in _describe(advice):
            tell(line)


def _describe(advice: Advice) -> list[str]:
    from evogt_study.schema.values import text_label

    where = ", ".join(f"{name} = {text_label(value)}" for name, value in advice.at.items())
    parts = ", ".join(f"{words} {advice.parts[name]:.1e}" for name, words in CAUSES.items())
    lines = [f"{where or 'the study'}: error {advice.error:.2e}", f"  {parts}"]
    change = ", ".join(f"{name} = {text_label(value)}" for name, value in advice.change.items())
    if advice.predicted > WORTH * advice.error:
        return [*lines, f"  no single change gains much: {change} is predicted to give {advice.predicted:.2e}"]
    line = f"  use {change}: predicted {advice.predicted:.2e}, {advice.error / advice.predicted:.1f} times less"
    if advice.measured is not None:
        line += f"; computed {advice.measured:.2e}"
    return [*lines, line]
