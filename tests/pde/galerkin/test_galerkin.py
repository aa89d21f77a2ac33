"""The diffusion must be positive where it is used; assembly itself is compared in tests/test_independent.py."""

import numpy as np
import pytest

from evogt_study.errors import ProblemError
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.problem import NonSeparable, Problem, Separable
from evogt_study.pde.galerkin.system import check_diffusion
from evogt_study.pde.numerics import QuadratureRule

both_forms = pytest.mark.parametrize("split", [True, False], ids=["separable", "general"])


def checked(diffusion, times=(0.25, 0.75)):
    quadrature = UnitCube(1).quadrature(QuadratureRule("composite_midpoint", 10))
    check_diffusion(Problem(1, diffusion, lambda nodes: nodes[:, 0]), quadrature, np.array(times))


@pytest.mark.parametrize(
    ("profile", "measured"),
    [
        (lambda x: 1.0 - 2.0 * x, "-0.9"),  # at the last midpoint, 0.95
        (lambda x: x - 0.05, "0"),  # exactly zero at the first
        (lambda x: np.full_like(x, -3.0), "-3"),
        (lambda x: np.where(x > 0.5, np.nan, 1.0), "nan"),
        (lambda x: np.where(x > 0.5, -np.inf, 1.0), "-inf"),
    ],
    ids=["negative", "zero", "constant", "nan", "minus-infinity"],
)
@both_forms
def test_a_diffusion_that_is_not_positive_is_refused_with_the_measured_minimum(profile, measured, split):
    diffusion = Separable(lambda nodes: profile(nodes.T)) if split else NonSeparable(lambda n, t: profile(n[:, 0]))
    with pytest.raises(ProblemError) as caught:
        checked(diffusion)
    assert str(caught.value) == f"`diffusion` must be positive on the assembly nodes, got a minimum of {measured}"


@both_forms
def test_diffusion_is_checked_at_every_given_time(split):
    def modulated(times):
        return np.stack([np.ones(len(times)), -np.asarray(times)])

    moving = Separable(lambda nodes: np.ones((2, len(nodes))), modulated)  # 1 - t
    diffusion = moving if split else NonSeparable(lambda nodes, t: np.full(len(nodes), 1.0 - t))
    checked(diffusion, (0.0, 0.5, 0.999))
    with pytest.raises(ProblemError, match="got a minimum of -0.25"):
        checked(diffusion, (0.0, 0.5, 1.25))
