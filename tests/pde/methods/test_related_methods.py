"""Methods of the paper's discussion of related work, the eigenvalue variant, seconds of stages and constants."""

from pathlib import Path

import numpy as np
import pytest

import evogt_study as evs
from evogt_study import pde
from evogt_study.errors import InputError
from evogt_study.pde.certificates.certify import make_norm_matrix, measure_dual_norm
from evogt_study.pde.galerkin.system import compute_weighted_svd, decompose_mass, make_trial, retain

ROOT = Path(__file__).parents[3]
HEAT = """
name = "heat"
method = "{method}"
[problem]
dimension = 1
exact = "{exact}"
diffusion = "{diffusion}"
[axes]
{axis}
[constants]
final_time = 0.5
validation = 200
{constants}
"""
WAVE = "exp(-t)*sin(2*pi*x)"
FEATURES = 'dictionary = "legendre"\nN = 20\npoints = 40\nseed = 0'


def run(method, axis, constants, diffusion="1/10 + x/20", exact=WAVE):
    study = HEAT.format(method=method, axis=axis, constants=constants, diffusion=diffusion, exact=exact)
    data = evs.run(evs.Study.from_text(study), workers=0)
    assert set(data.run_status.values.ravel()) == {"ok"}, data.run_message.values
    return data


@pytest.mark.parametrize("diffusion", ["1/10 + x/20", "(1 + x*t)/20"])
def test_the_discrete_time_method_has_order_three(diffusion):
    errors = run("discrete_time_rfm", "dt = [0.125, 0.0625, 0.03125]", FEATURES, diffusion).error.values
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), 3.0, atol=0.35)


def test_the_discrete_time_method_checks_the_diffusion_before_a_run():
    with pytest.raises(InputError, match="`diffusion` must be positive"):
        run("discrete_time_rfm", "dt = [0.125]", FEATURES, "1/10 - x/2")


def test_pod_modes_reach_the_error_of_their_snapshots():
    data = run("pod_galerkin", "modes = [1, 4]", "unknowns = 63\ndt = 0.0125")
    full = run("p1_fem", "unknowns = [63]", "dt = 0.0125")
    assert data.error.values[1] == pytest.approx(full.error.item(), rel=1e-3)
    assert (data.degrees_of_freedom.values <= [1, 4]).all()
    assert (data.online_seconds < data.offline_seconds).all()


def test_pod_modes_of_a_first_part_miss_what_comes_later():
    hump, axis = "x*(1 - x)*exp(-100*(x - t - 1/5)**2)", "training_time = [0.025, 0.5]"
    errors = run("pod_galerkin", axis, "unknowns = 63\ndt = 0.0125\nmodes = 6", exact=hump).error.values
    assert errors[0] > 5 * errors[1]


def test_the_eigenvalue_variant_has_a_larger_mass_defect():
    """The remark after eq:eig_phi."""
    problem = pde.problems.oscillatory_1d(epsilon=0.2)
    features = problem.domain.features(pde.Dictionary("gtransnet", N=60, N1=240, gamma=20), 0)
    trial = make_trial(problem.domain, features, problem.domain.quadrature(pde.QuadratureRule("gauss_legendre", 320)))
    by_svd, by_eigenvalues = (retain(trial, of(trial), 1e-12) for of in (compute_weighted_svd, decompose_mass))
    assert by_svd.rank == by_eigenvalues.rank
    assert by_svd.mass_defect < 1e-9 < 1e-7 < by_eigenvalues.mass_defect
    # the dual seminorm of a retained function: the supremum is attained, and no function exceeds it
    norm, rng = make_norm_matrix(by_svd), np.random.default_rng(0)
    g = rng.standard_normal(320)
    value, z = measure_dual_norm(norm, by_svd.project(g)), rng.standard_normal((100, by_svd.rank))
    best = np.linalg.solve(norm, by_svd.project(g))
    for tried in (*z, best):
        ratio = abs(tried @ by_svd.project(g)) / np.sqrt(tried @ norm @ tried)
        assert ratio <= value * (1 + 1e-6)
    assert ratio == pytest.approx(value, rel=1e-6)


def test_constants_and_seconds_of_stages_are_recorded():
    study = HEAT.format(
        method="evolution", axis="seed = [0]", diffusion="1/10 + x/20", exact=WAVE,
        constants='dictionary = "gtransnet"\nN = 20\nN1 = 80\ngamma = 4\nquadrature = 80\ndt = 0.0125',
    )  # fmt: skip
    names = '"stage_seconds", "semidiscrete_constant", "diffusion_min", "diffusion_max", "coercivity", "mass_constant"'
    data = evs.run(evs.Study.from_text(f"{study}[output]\nrecord = [{names}]\n"), workers=0).isel(seed=0)
    assert data.stage.values.tolist()[-1] == "trajectory"
    assert float(data.stage_seconds.sum()) == pytest.approx(float(data.offline_seconds + data.online_seconds))
    assert 0.1 < float(data.diffusion_min) < float(data.diffusion_max) < 0.15
    scale = np.sqrt(3 / data.coercivity)
    constant = 1 + (1 + data.diffusion_max * np.sqrt(0.5) * scale) / np.sqrt(data.mass_constant)
    assert float(data.semidiscrete_constant) == pytest.approx(
        max(float(constant), float(scale / np.sqrt(data.mass_constant)))
    )


def test_feature_derivatives_are_derivatives():
    dictionary, x, h = pde.Dictionary("gtransnet", N=5, N1=20, gamma=4), np.array([0.2, 0.7]), 1e-5
    before, now, after = (pde.evaluate_features(dictionary, x + shift, seed=3) for shift in (-h, 0.0, h))
    np.testing.assert_allclose((after.value - before.value) / (2 * h), now.gradient[0], atol=1e-7)
    np.testing.assert_allclose((after.gradient[0] - before.gradient[0]) / (2 * h), now.hessian[0, 0], atol=1e-6)


def test_the_study_of_related_methods_is_valid():
    study = evs.Study.from_file(ROOT / "studies/examples/related_methods.toml")
    assert study.name == "related_methods"
