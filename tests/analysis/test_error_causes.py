"""The budget as a picture and a sentence, and how far a pilot's choice is from the one that knows the answer."""

import numpy as np
import pytest
import xarray as xr
from conftest import computed_table

from evogt_study.analysis.plots import kinds
from evogt_study.analysis.tables.pilot_distance import distance_told, pilot_distance
from evogt_study.planning.plan import study_plan
from evogt_study.results.dataset import dataset
from evogt_study.study.study import Study

TEXT = """
name = "causes"
[problem]
dimension = 1
exact = "exp(-t)*sin(8*pi*x)"
diffusion = "1 + x/2"
[axes]
dictionary = ["transnet", "legendre"]
seed = [0, 1]
[constants]
N = 40
tau = 1e-6
quadrature = 80
validation = 80
final_time = 0.1
dt = 0.005
[[when]]
match = { dictionary = "transnet" }
set = { gamma = 4 }
[output]
record = ["error_full_space", "error_retained", "error_evolution", "error_time"]
"""


@pytest.fixture(scope="module")
def result():
    study = Study.from_text(TEXT)
    plan = study_plan(study)
    return dataset(computed_table(plan), study)


def pilot(minimise):
    """Three candidates at two points; the second point's least estimate is not at its least error."""
    values = {"error": [[3.0, 1.0, 2.0], [2.0, 4.0, 1.0]], "error_upper": [[3.0, 1.5, 2.0], [1.0, 4.0, 2.0]]}
    data = {name: (("k", "candidate", "seed"), np.array(table)[:, :, None]) for name, table in values.items()}
    data["status"] = (("k", "candidate", "seed"), np.ones((2, 3, 1), dtype=np.int8))
    study = f'[pilot]\nminimise = "{minimise}"\nby = ["k"]\n'
    return xr.Dataset(data, {"k": [5, 7]}, {"study": study})


def test_how_far_the_choice_is():
    np.testing.assert_array_equal(pilot_distance(pilot("error_upper")), [1.0, 2.0])
    told = distance_told(pilot("error_upper"))
    assert "1 of 2 choices are those of the error itself" in told
    assert "at most 2 times (k = 7)" in told
    assert distance_told(pilot("error")) == ""


def test_what_limits_the_cells(result):
    (choice,) = [choice for choice in kinds.fitting(result) if choice.kind == "budget"]
    drawn = kinds.drawn(result, *choice[:1])
    assert "The truncation (tau) is what limits" in drawn.alt
    assert "transnet" in drawn.alt
    assert drawn.alt in drawn.caption
    heights = [bar.get_height() for bar in drawn.figure.axes[0].patches]
    assert np.sum(heights) == pytest.approx(2.0)  # the shares of two dictionaries
