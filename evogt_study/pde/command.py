"""The command `evogt advise`."""

from pathlib import Path

import click

from evogt_study.cli.inputs import STUDY_FILE, make_command, option
from evogt_study.text import print_line

MAX_WORTHWHILE_RATIO = 0.9
"""Ratio of the predicted to the present error above which the command recommends no change."""
CAUSE_LABELS = {
    "error_full_space": "full space",
    "error_retained": "retained space",
    "error_evolution": "evolution",
    "error_time": "time",
}


@make_command([STUDY_FILE], [
    option("--setups", "N", "Number of setups to compute.", type=click.IntRange(1), default=6),
    option("--no-check", "", "Predict the gain and do not compute the changed runs."),
], short_help="Name the parameter that limits the error of a study, and the gain of a change.")  # fmt: skip
def advise(study_file: Path, setups: int, no_check: bool) -> None:
    """Name the parameter that limits the error of a study, and the gain of a change.

    The parameters are N, tau, quadrature and dt.  The command computes a few setups with the first seed and splits each
    error into its parts.  As a check, the command computes the change with the largest predicted gain.  The command
    writes no file.
    """
    from evogt_study.cli.inputs import read_study
    from evogt_study.pde.advise import advise as advice_on
    from evogt_study.schema.values import to_string

    for advice in advice_on(read_study(study_file), setups, check=not no_check):
        where = ", ".join(f"{name} = {to_string(value)}" for name, value in advice.at.items()) or "the study"
        change = ", ".join(f"{name} = {to_string(value)}" for name, value in advice.change.items())
        print_line(f"{where}: error {advice.error:.2e}")
        print_line(f"  {', '.join(f'{text} {advice.parts[name]:.1e}' for name, text in CAUSE_LABELS.items())}")
        if advice.predicted > MAX_WORTHWHILE_RATIO * advice.error:
            line = f"  no single change gains much: {change} is predicted to give {advice.predicted:.2e}"
        else:
            gain = advice.error / advice.predicted
            line = f"  use {change}: predicted {advice.predicted:.2e}, {gain:.1f} times less"
            line += "" if advice.measured is None else f"; computed {advice.measured:.2e}"
        print_line(line)
