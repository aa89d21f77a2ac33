"""Numbers that are wrong with status ok: too coarse an assembly rule, and a ball that does not hold the domain."""

import numpy as np
import pytest
from helpers import read_study, study_text

from evogt_study import pde
from evogt_study.errors import AccuracyWarning
from evogt_study.pde.methods.declarations import MOST_QUADRATURE_DEFECT
from evogt_study.schema.variables import list_accuracy_warnings

OSCILLATORY = pde.problems.oscillatory_1d(epsilon=0.2)
BOX = pde.FormulaProblem(3, exact="exp(-t)*sin(pi*x)*sin(pi*y)*sin(pi*z)", diffusion="1")()
LAYERED = pde.Dictionary("gtransnet", N=60, N1=240, gamma=20)

COARSE, BALL = "the assembly rule is too coarse", "does not hold the domain"


@pytest.mark.parametrize("validation", [None, 30, 8])  # the paper's, the assembly rule, and a coarser one
def test_too_coarse_a_rule_in_one_dimension_is_told(validation):
    with pytest.warns(AccuracyWarning, match=COARSE) as caught:
        one = pde.solve(OSCILLATORY, LAYERED, 0, quadrature=30, validation=validation, dt=2.5e-3, certificates=False)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert one.quadrature_defect > 1e4
    assert one.mass_defect < 1e-10
    fine = pde.solve(
        OSCILLATORY, LAYERED, 0, quadrature=320, validation=validation, dt=2.5e-3, certificates=False
    )  # a warning is an error
    assert fine.quadrature_defect < 1e-9


def test_the_coarsest_of_the_papers_runs_is_not():
    """80 points of studies/paper/quadrature.toml, of whose seeds this one has the largest defect."""
    problem = pde.problems.oscillatory_1d(epsilon=0.1)
    run = pde.solve(problem, LAYERED, 9, quadrature=80, dt=2.5e-3, certificates=False)
    assert 0.3 < run.quadrature_defect < MOST_QUADRATURE_DEFECT


def test_a_ball_that_does_not_hold_the_domain_is_told():
    small = pde.Dictionary("gtransnet", N=60, N1=240, gamma=20, radius=0.3)
    with pytest.warns(AccuracyWarning, match=BALL):
        one = pde.solve(OSCILLATORY, small, 0, quadrature=320, dt=2.5e-3, certificates=False)
    assert float(one.domain_reach) == pytest.approx(0.5 / 0.3)
    assert "domain_reach" not in pde.solve(OSCILLATORY, LAYERED, 0, quadrature=320, dt=2.5e-3, certificates=False)


# --- of a study -------------------------------------------------------------------------------------------------------

PROBLEM = {"dimension": 1, "exact": "exp(-t)*sin(pi*x)", "diffusion": "1/10"}
CONSTANTS = {"N": 30, "N1": 40, "gamma": 16, "validation": 60, "final_time": 0.1, "dt": 0.05, "tau": 1e-12}
AXES = {"dictionary": ["gtransnet", "gaussian_rf"], "quadrature": [20, 80], "radius": [0.4, 0.8], "seed": [0, 1]}


@pytest.fixture(scope="module")
def doubtful(tmp_path_factory):
    """The text of a study in a file, and its result, as `evogt run` writes them."""
    folder = tmp_path_factory.mktemp("doubtful")
    (folder / "doubtful.toml").write_text(study_text(PROBLEM, CONSTANTS, AXES))
    return folder


@pytest.mark.long
def test_run_tells_before_and_after_and_readers_tell_again(doubtful, evogt, monkeypatch):
    monkeypatch.chdir(doubtful)
    code, _, output = evogt("run", "doubtful.toml", "-q", "--workers", "1", "-o", "d.nc")
    data = read_study(doubtful / "d.nc")
    flagged, outside = data.quadrature_defect > MOST_QUADRATURE_DEFECT, data.domain_reach > 1
    assert code == 0
    assert flagged.sel(quadrature=20).any()
    assert not flagged.sel(quadrature=80).any()
    np.testing.assert_array_equal(outside.any("seed"), outside.all("seed"))
    assert outside.sel(dictionary="gtransnet", radius=0.4).all()
    assert int(outside.sum()) == 4  # of gtransnet alone
    before, *after = output.splitlines()
    assert before.startswith("evogt: domain_reach is 1.25, above 1: ")
    worst = f"{float(data.quadrature_defect.max()):.3g}"
    coarse = (
        f"quadrature_defect is above 0.5 (in {int(flagged.sum())} of 16 runs, the largest {worst}): {COARSE} for the "
        "features. Use a finer `quadrature`"
    )
    ball = (
        "domain_reach is above 1 (in 4 of 16 runs, the largest 1.25): the ball of `radius` about `centre` does not "
        "hold the domain. Use a larger `radius`"
    )
    assert after == [f"evogt: {coarse}", f"evogt: {ball}"]
    assert evogt("summary", "d.nc")[2].splitlines() == after
    assert evogt("run", "-n", "doubtful.toml")[2].splitlines() == [before]
    evogt("report", "d.nc", "-o", "d.html")
    page = (doubtful / "d.html").read_text()
    assert f"<strong>Accuracy warning:</strong> {coarse}.</p>" in page
    assert f"<strong>Accuracy warning:</strong> {ball}.</p>" in page


def test_what_a_method_of_ones_own_returns_under_these_names_is_its_own(own_study, result_of, tmp_path):
    source = "def method(seed):\n    return {'error': 1.0, 'quadrature_defect': 9.0}\n"
    path = result_of(own_study(source, "[axes]\nseed = [0, 1]"), tmp_path / "own.nc")
    assert list(list_accuracy_warnings(read_study(path))) == []
