"""The benchmarks at smoke size: the transcription of the paper's algorithms gives the shipped numbers.

One or two runs of each phase of each study, evenly spaced: dictionaries, pilots, cross-grid assessment, references,
Allen-Cahn, finite elements and space-time regression, each against what the package has computed.  No time is judged.
"""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).parents[2]
BENCHMARKS = Path(__file__).parent
sys.path.insert(0, str(BENCHMARKS))

import naive  # noqa: E402

STUDIES = sorted(path.stem for path in (ROOT / "studies" / "paper").glob("*.toml") if path.stem != naive.NOT_COUNTED)
TWO_RUNS = {"oscillatory_1d", "target_1d", "operator_2d", "feature_count", "quadrature", "threshold"}


@pytest.mark.parametrize("name", STUDIES)
def test_the_transcription_gives_the_shipped_numbers(name):
    with threadpool_limits(1):  # several threads wait for each other where tests of other processes run beside this one
        compared = naive.compute(name, limit=2 if name in TWO_RUNS else 1)
    assert compared.runs >= 1
    assert compared.differing == []


def test_a_number_that_differs_is_found():
    data = xr.Dataset({"error": ("seed", [0.1, 0.2]), "rank": ("seed", [7, 8])})
    compared = naive.Comparison()
    for index, found in enumerate([{"error": 0.1 + 1e-8, "rank": 7}, {"error": 0.2 + 1e-6, "rank": 9}]):
        compared.add(found, data, SimpleNamespace(index=index), size=2)
    assert [text.split(":")[0] for text in compared.differing] == ["error of case 1", "rank of case 1"]
    assert compared.largest == pytest.approx(5e-6)


def test_the_choice_of_gamma_is_the_least_mean_and_the_smaller_of_equals():
    study = naive.Study.from_file(ROOT / "studies" / "paper" / "oscillatory_1d.toml")
    plan = naive.provisional_plans(study)[0]
    errors = np.ones(plan.space.shape)
    errors[1, :, 3:5] = 0.5  # gtransnet: 12 and 14 are equal and least
    errors[2, :, 7:] = np.nan  # gaussian_rf has seven candidates
    choice = naive.choice_of(study, plan, errors, np.zeros(plan.space.shape[:2]))
    assert {key[0]: gamma for key, (gamma,) in choice.table.items()} == {
        "transnet": 4,
        "gtransnet": 12,
        "gaussian_rf": 2,
        "uniform_elm": 2,
    }


def test_the_two_commands_side_by_side():
    command = [sys.executable, str(BENCHMARKS / "speedup.py"), "p1_fem_target", "--limit", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ratio" in done.stdout
