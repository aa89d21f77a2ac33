"""Numbers depend neither on units of length and time nor on where the origin is."""

import numpy as np
import pytest

import evogt_study as evs
from evogt_study import pde
from evogt_study.pde.certificates.certify import find_certificates
from evogt_study.pde.dictionaries.base import Dictionary
from evogt_study.pde.domains.plane import Polygon
from evogt_study.pde.numerics import TriangleRule

POINTS = np.array([[0.3, 0.3], [0.1, 0.2], [0.6, 0.3]])


@pytest.mark.parametrize("side", [10.0, 1e6])
def test_the_boundary_factor_of_a_polygon(side):
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    one, other = Polygon.from_vertices(corners), Polygon.from_vertices(side * corners + 3.0 * side)
    for order, (wanted, found) in enumerate(
        zip(one.boundary_factor(POINTS, 1), other.boundary_factor(side * POINTS + 3.0 * side, 1), strict=True)
    ):
        np.testing.assert_allclose(side**order * found, wanted, rtol=1e-9, atol=1e-10)


def test_a_corner_on_a_straight_side_but_for_rounding_makes_no_triangle_without_area():
    rng = np.random.default_rng(0)
    for _ in range(200):
        count = int(rng.integers(3, 6))
        angle, radius = np.sort(rng.uniform(0.0, 2.0 * np.pi, count)), rng.uniform(0.2, 1.0, count)
        if np.diff(np.append(angle, angle[0] + 2.0 * np.pi)).max() > 0.98 * np.pi:
            continue
        corners = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        side, part = int(rng.integers(count)), rng.random()
        between = (1.0 - part) * corners[side] + part * corners[(side + 1) % count]
        domain = Polygon.from_vertices(np.insert(corners, side + 1, between, axis=0).tolist())
        weights = domain.quadrature(TriangleRule(0, 2)).weights
        assert weights.min() > 1e-12 * weights.max()


@pytest.mark.parametrize("origin", [0, 1_000, 500_000])
def test_a_formula_that_moves_in_time(origin):
    """(x - origin - t)^4, multiplied out, is a sum of terms of some origin^4 that cancel."""
    domain = {"lower": [origin], "upper": [origin + 1]}
    exact = f"sin(pi*(x-{origin}))*(1 + (x-{origin}-t)**4)"
    problem = pde.FormulaProblem(dimension=1, exact=exact, domain=domain)()
    x, t = np.linspace(0.0, 1.0, 23), np.array([0.0, 0.3, 1.0])
    values = np.sin(np.pi * x) * (1.0 + (x - t[:, None]) ** 4)
    np.testing.assert_allclose(problem.exact((origin + x)[:, None], t), values, rtol=0.0, atol=1e-9)


SIZES = {"error_full_space": 1e-3, "error_retained": 1e-3, "error_bound": 1e-6, "error": 1e-6}
"""Certificates and the relative difference that rounding of features may make: it grows as the features nearly depend
on each other."""


@pytest.mark.parametrize(("side", "time"), [(1e6, 1.0), (1.0, 1e11), (1e-4, 1e-3)])
def test_certificates(side, time):
    def solved(L, T):
        statement = pde.FormulaProblem(
            dimension=2,
            exact=f"exp(-t/{T!r})*sin(pi*x/{L!r})*sin(pi*y/{L!r})*exp(x/{L!r})",
            diffusion=repr(L * L / T),
            domain={"lower": [0, 0], "upper": [L, L]},
        )
        dictionary = Dictionary("transnet", N=30, gamma=3.0)
        return pde.solve(
            statement(), dictionary, 2, quadrature=14, dt=0.01 * T, final_time=0.1 * T, tau=1e-8,
            certificates=[name for name in SIZES if name != "error"],
        )  # fmt: skip

    one, other = solved(1.0, 1.0), solved(side, time)
    for name, size in SIZES.items():
        assert float(other[name]) == pytest.approx(float(one[name]), rel=size), name


@pytest.mark.parametrize("diffusion", [1.0, 1e-13])
def test_data_that_may_make_errors_grow_have_no_bound(diffusion):
    """transfer < 0, whatever its units."""
    boundary = {"x1": {"transfer": f"-9*{diffusion!r}", "outside": "0"}}
    problem = pde.FormulaProblem(dimension=1, initial="x", lifting="0", diffusion=repr(diffusion), boundary=boundary)()
    assert find_certificates(problem, 0.1 / diffusion) == ()
    kind = {"x1": {"transfer": f"9*{diffusion!r}", "outside": "0"}}
    problem = pde.FormulaProblem(dimension=1, initial="x", lifting="0", diffusion=repr(diffusion), boundary=kind)()
    assert "error_bound" in find_certificates(problem, 0.1 / diffusion)


def test_a_source_that_is_too_short_for_the_times_makes_the_bound_infinite_or_large_in_all_units():
    bounds = []
    for T in (0.2, 2e10):
        exact = f"sin(pi*x)*(1 + tanh((t - {0.35 * T!r})/{0.004 * T!r})/2)"
        problem = pde.FormulaProblem(dimension=1, exact=exact, diffusion=repr(0.2 / T), final_time=T)()
        data = pde.solve(
            problem, Dictionary("legendre", N=12), 1, quadrature=60, dt=T / 5, final_time=T,
            certificates=["error_bound"],
        )  # fmt: skip
        bounds.append(float(data["error_bound"]))
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-6)


@pytest.mark.parametrize("T", [1.0, 5.0])
def test_a_kink_that_comes_late_is_seen_at_the_final_time(T):
    """It enters at t = 0.5."""
    statement = pde.FormulaProblem(dimension=1, exact="sin(pi*x)*(1 + acos(cos(pi*(x + 1/2 - t)/2)))")
    assert statement.until(0.2)
    with pytest.raises(evs.errors.ProblemError, match="must be without jumps"):
        statement.until(T)
