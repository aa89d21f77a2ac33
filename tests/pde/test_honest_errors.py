"""Numbers of the wing that were wrong although the status was ok."""

import numpy as np
import pytest

import evogt_study as evs
from evogt_study.pde.advise import advise

LONG = """
name = "long"
[problem]
dimension = 1
initial = "sin(pi*x)"
source = "sin(pi*x)*sin(20*t) + sin(2*pi*x)*cos(3*t)"
diffusion = "1/10"
[axes]
seed = [0]
[constants]
dictionary = "legendre"
N = 20
quadrature = 60
validation = 60
final_time = 10.0
dt = 0.01
time_integrator = "gauss_3"
[output]
record = ["error_estimate", "error_bound"]
"""


def test_the_estimate_takes_as_many_steps_as_the_system_needs():
    data = evs.run(evs.Study.from_text(LONG), workers=0)
    assert data.error_estimate.item() < 1e-7


def test_the_absolute_bound_is_recorded():
    text = LONG.replace('"error_bound"]', '"error_bound", "norm_history"]')
    data = evs.run(evs.Study.from_text(text), workers=0)
    parts = [data[f"error_bound_{part}"] for part in ("initial", "residual", "estimated")]
    norm = data.error_bound_absolute / data.error_bound
    assert norm.item() == pytest.approx(data.norm_history.isel(time=-1).item(), rel=1e-6)
    np.testing.assert_allclose(sum(part**2 for part in parts), data.error_bound**2, rtol=1e-12)


@pytest.mark.parametrize("terms", ['reaction = "u - u**3"', 'potential = "(u**2 - 1)**2/4"', 'reaction = "u*u_x"'])
def test_advice_on_a_nonlinear_problem_is_refused(terms):
    text = LONG.replace('source = "sin(pi*x)*sin(20*t) + sin(2*pi*x)*cos(3*t)"', terms).split("[output]")[0]
    text = text.replace("gauss_3", "imex_bdf_2")
    with pytest.raises(evs.errors.InputError, match="`evogt advise` needs a linear problem"):
        list(advise(evs.Study.from_text(text), 1, check=False))


def test_advice_needs_the_solver():
    study = evs.Study(lambda x: x, axes={"x": [1.0]}, name="own")
    with pytest.raises(evs.errors.InputError, match="needs a study of the PDE solver, got the method"):
        list(advise(study, 1, check=False))


LOWER_ORDERS = (("implicit_midpoint", 2), ("radau_iia_2", 3))


@pytest.mark.parametrize(
    ("integrator", "order"),
    [("gauss_2", 4), *(pytest.param(*each, marks=pytest.mark.long) for each in LOWER_ORDERS)],
)
def test_advice_predicts_by_the_order_of_the_integrator(integrator, order):
    text = LONG.split("[output]")[0].replace("gauss_3", integrator).replace("dt = 0.01", "dt = 0.05")
    (advice,) = advise(evs.Study.from_text(text.replace("10.0", "1.0")), 1, check=True)
    assert list(advice.change) == ["dt"]
    assert advice.predicted == pytest.approx(advice.error / 2**order, rel=0.3)
    assert advice.measured == pytest.approx(advice.predicted, rel=0.3)


ALLEN_CAHN = """
name = "allen_cahn"
[problem]
dimension = 2
initial = "0.42*sin(6*pi*x)*sin(6*pi*y) + 0.24*sin(4*pi*x)*sin(7*pi*y) + 0.16*sin(9*pi*x)*sin(3*pi*y)"
diffusion = "0.025**2"
potential = "(u**2 - 1)**2/4"
[axes]
seed = [0]
[constants]
dictionary = "sine"
N = 225
quadrature = 60
validation = 60
final_time = 1.0
dt = 0.1
time_integrator = "stabilized_semi_implicit"
stabilization = 2
reference = "finite_difference"
reference_points = 512
"""


@pytest.mark.long
def test_a_reference_does_not_share_the_step_of_the_run():
    data = evs.run(evs.Study.from_text(ALLEN_CAHN), workers=0).isel(seed=0)
    assert float(data.error) == pytest.approx(7.61e-2, rel=1e-2)  # by 128 of its steps for each step of the run
    assert float(data.reference_error) < 1e-3
