"""Formulas of a potential F(u): its values, its slope, and the source that is derived with it."""

import numpy as np
import pytest

from evogt_study.pde.problems.formula_problem import FormulaProblem

EPS = np.finfo(float).eps
DOUBLE_WELL = "(u**2 - 1)**2/4"


POTENTIALS = {
    DOUBLE_WELL: ({}, lambda u: (u**2 - 1) ** 2 / 4, lambda u: u**3 - u),
    "c*u**2/2 + u": ({"c": 3.0}, lambda u: 1.5 * u**2 + u, lambda u: 3.0 * u + 1.0),
    "1 - cos(k*u)": ({"k": 2.0}, lambda u: 1 - np.cos(2 * u), lambda u: 2 * np.sin(2 * u)),
    "exp(-u**2) + log(2 + u**2)": (
        {}, lambda u: np.exp(-(u**2)) + np.log(2 + u**2), lambda u: -2 * u * np.exp(-(u**2)) + 2 * u / (2 + u**2),
    ),
    "7": ({}, lambda u: np.full_like(u, 7.0), np.zeros_like),
    "b": ({"b": 2.5}, lambda u: np.full_like(u, 2.5), np.zeros_like),
}  # fmt: skip


@pytest.mark.parametrize("potential", POTENTIALS)
def test_a_potential_and_its_slope_are_elementwise_and_the_slope_joins_the_source(potential):
    values, value, slope = POTENTIALS[potential]
    problem = FormulaProblem(dimension=1, initial="x*(1-x)", potential=potential)(**values)
    for u in (np.linspace(-1.7, 1.9, 13), np.linspace(-1.0, 1.0, 12).reshape(3, 4), np.array([0.3])):
        assert problem.potential.value(u) == pytest.approx(value(u), abs=16 * EPS)
        assert problem.potential.slope(u) == pytest.approx(slope(u), abs=16 * EPS)
    rng, formulas = np.random.default_rng(0), {"exact": "cos(t)*sin(pi*x)*y*(1-y)", "diffusion": "1 + x/2"}
    nodes, times = rng.uniform(0.0, 1.0, (11, 2)), rng.uniform(0.1, 1.0, 5)
    flow, heat = FormulaProblem(2, potential=potential, **formulas)(**values), FormulaProblem(2, **formulas)()
    x, y = nodes.T
    exact = np.cos(times)[:, None] * np.sin(np.pi * x) * y * (1 - y)
    scale = 1.0 + np.abs(heat.source(nodes, times)).max()
    found = flow.source(nodes, times) - heat.source(nodes, times)
    assert found == pytest.approx(slope(exact), abs=16 * EPS * scale)
