"""The paper's 24 choices of gamma by numbers that need no exact solution, against the choices by the error itself."""

from pathlib import Path

import numpy as np
import pytest
from conftest import compute_table

from evogt_study.plots.axis_plots import find_pilot_choice
from evogt_study.results.dataset import to_dataset
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study

PAPER = Path(__file__).parents[1] / "studies" / "paper"
RECORDED = "error_upper", "error_estimate"


def pilot_of(name):
    """The finished runs of the study's pilot, with what they say of their errors."""
    text = (PAPER / f"{name}.toml").read_text(encoding="utf-8")
    head, _ = text.split("[output]")
    study = Study.from_text(f"{head}[output]\nrecord = {list(RECORDED)}\n")
    return to_dataset(compute_table(plan_study(study)[0]), study)


def distances(pilots, minimise):
    """Mean error of each choice over the least mean error of all candidates."""
    section = f'[pilot]\nminimise = "{minimise}"\nby = ["dictionary", "epsilon"]\n'
    found = []
    for pilot in pilots:
        error = pilot["error"].mean("seed", skipna=False)
        chosen = error.where(find_pilot_choice(pilot.assign_attrs(study=section))).max("candidate")
        found.append((chosen / error.min("candidate")).values.ravel())
    return np.concatenate(found)


@pytest.mark.slow
def test_the_papers_choices_without_the_exact_solution():
    pilots = [pilot_of(name) for name in ("oscillatory_1d", "target_1d")]
    upper, estimate = (distances(pilots, minimise) for minimise in RECORDED)
    assert len(upper) == 24
    assert np.count_nonzero(upper == 1.0) >= 23
    assert np.median(estimate) <= 1.25
    assert estimate.max() <= 2.0
