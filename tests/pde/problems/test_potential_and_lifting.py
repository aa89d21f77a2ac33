"""Statements with a potential F(u) and with a lifting u_b: parsing, derivation of their data, and what is refused."""

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.errors import FormulaError, ParameterError, ProblemError
from evogt_study.formulas import FUNCTIONS
from evogt_study.pde.galerkin.problem import NonSeparable, Separable
from evogt_study.pde.problems.formula_problem import FormulaProblem, derived

EPS = np.finfo(float).eps
BUBBLE = {1: "x*(1-x)", 2: "x*(1-x)*y*(1-y)", 3: "x*(1-x)*y*(1-y)*z*(1-z)"}
DOUBLE_WELL = "(u**2 - 1)**2/4"

dimensions = pytest.mark.parametrize("dimension", [1, 2, 3])


def with_potential(potential, **more):
    return FormulaProblem(dimension=1, initial=BUBBLE[1], potential=potential, **more)


def samples(dimension, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.0, 1.0, (11, dimension)), rng.uniform(0.1, 1.0, 5)


# Potentials


@pytest.mark.parametrize(
    ("potential", "values", "value", "slope"),
    [
        (DOUBLE_WELL, {}, lambda u: (u**2 - 1) ** 2 / 4, lambda u: u**3 - u),
        ("c*u**2/2", {"c": 3.0}, lambda u: 1.5 * u**2, lambda u: 3.0 * u),
        ("1 - cos(k*u)", {"k": 2.0}, lambda u: 1 - np.cos(2 * u), lambda u: 2 * np.sin(2 * u)),
        ("u", {}, lambda u: u, np.ones_like),
        ("7", {}, lambda u: np.full_like(u, 7.0), np.zeros_like),
        ("0", {}, np.zeros_like, np.zeros_like),
        ("b", {"b": 2.5}, lambda u: np.full_like(u, 2.5), np.zeros_like),
        ("exp(-u**2) + log(2 + u**2)", {}, lambda u: np.exp(-(u**2)) + np.log(2 + u**2),
         lambda u: -2 * u * np.exp(-(u**2)) + 2 * u / (2 + u**2)),
    ],
)  # fmt: skip
def test_a_potential_and_its_slope_are_elementwise_functions(potential, values, value, slope):
    found = with_potential(potential)(**values).potential
    for u in (np.linspace(-1.7, 1.9, 13), np.linspace(-1.0, 1.0, 12).reshape(3, 4), np.array([0.3])):
        assert found.value(u).shape == found.slope(u).shape == u.shape
        assert found.value(u) == pytest.approx(value(u), abs=16 * EPS)
        assert found.slope(u) == pytest.approx(slope(u), abs=16 * EPS)
        both = found.at(u.shape)
        for array in (u, u[::-1].copy()):
            for together, alone in zip(both(array), (found.value(array), found.slope(array)), strict=True):
                assert np.array_equal(together, alone)


@dimensions
def test_a_statement_without_potential_or_lifting_makes_a_problem_without(dimension):
    problem = FormulaProblem(dimension=dimension, initial=BUBBLE[dimension])()
    assert problem.potential is None
    assert problem.lifting is None


@pytest.mark.parametrize(
    ("potential", "outside"),
    [
        ("x*u**2", "x"),
        ("u**2*t", "t"),
        ("u**2 + x*t*y", "t, x, y"),
        ("z + u", "z"),
        ("sin(t)", "t"),
    ],
)
def test_space_and_time_in_a_potential_are_refused(potential, outside):
    with pytest.raises(FormulaError) as caught:
        with_potential(potential)
    assert str(caught.value) == (f"`potential` must be a formula in u and parameters, got {outside} in {potential!r}")


def test_what_cancels_is_not_in_a_potential():
    assert with_potential("u**2 + x - x")().potential.value(np.array([3.0])) == pytest.approx([9.0])
    assert with_potential("sin(pi*u)").parameters == frozenset()  # pi is a number there too


@pytest.mark.parametrize("text", ["", "  ", "u u", "u.real", "__import__('os')", "u**99", "u[0]", "erf(u)"])
def test_a_potential_outside_the_grammar_is_refused_by_key(text):
    with pytest.raises(FormulaError, match="^`potential` must be"):
        with_potential(text)


@pytest.mark.parametrize("text", ["", "  ", "x y", "x.real", "__import__('os')"])
def test_a_lifting_outside_the_grammar_is_refused_by_key(text):
    with pytest.raises(FormulaError, match="^`lifting` must be"):
        FormulaProblem(dimension=1, initial="x*(1-x)", lifting=text)


@pytest.mark.parametrize(
    "formulas",
    [
        {"potential": "1/(u - u)"},
        {"potential": "u*tan(pi/2)"},
        {"potential": "log(-1 - 0*u)"},
        {"potential": "sqrt(u - u - 1)"},
        {"lifting": "x/(x - x)"},
        {"lifting": "abs(abs(x))*tan(pi/2)"},
        {"lifting": "sqrt(x - x - 1)"},
    ],
    ids=str,
)
def test_formulas_that_are_no_functions_are_refused(formulas):
    with pytest.raises(FormulaError, match="must be .*, got"):
        FormulaProblem(dimension=1, initial="x*(1-x)", **formulas)


def test_a_lifting_with_a_corner_has_the_gradient_on_both_sides():
    # |x - 1/3|, whose derivative is a sign: weak derivatives are all that a lifting needs
    lifting = FormulaProblem(dimension=1, initial="abs(x - 1/3)", lifting="abs(x - 1/3)")().lifting
    nodes = np.array([[0.1], [0.9]])
    assert lifting.gradient[0](nodes, np.zeros(1)).tolist() == [[-1.0, 1.0]]


# The name u


@pytest.mark.parametrize("potential", [None, DOUBLE_WELL])
@pytest.mark.parametrize("key", ["exact", "initial", "source", "diffusion", "lifting"])
def test_u_elsewhere_than_in_the_potential_is_refused_with_what_is_possible(key, potential):
    """A nonlinear equation is what its author means; with u as a parameter it would be a linear one."""
    formulas = {"initial": BUBBLE[1]} if key != "exact" else {}
    text = {"diffusion": "1 + u**2", "source": "u"}.get(key, f"u*{BUBBLE[1]}")
    with pytest.raises(FormulaError) as caught:
        FormulaProblem(dimension=1, **{**formulas, key: text}, potential=potential)
    assert str(caught.value) == (
        f"`{key}` must be free of u, the solution, got {text!r}; only `reaction`, g(u), and `potential`, F(u), may "
        "hold it, which add g(u) or -F'(u) to u_t; a parameter needs another name"
    )


def test_u_is_no_parameter_of_a_potential():
    statement = with_potential("c*u**2")
    assert statement.parameters == {"c"}
    with pytest.raises(ParameterError, match=r"`u` must be one of the problem's parameters \(c\), got 1"):
        statement(c=1.0, u=1.0)


# Parameters


def test_the_parameters_of_potential_and_lifting_are_the_problems():
    statement = FormulaProblem(
        dimension=1, initial="g*x", lifting="g*x*exp(-rate*t)", diffusion="nu", potential="c*u**4 + b"
    )
    # b drops out of F', rate at t = 0: they are parameters all the same
    assert statement.parameters == {"g", "rate", "nu", "c", "b"}
    problem = statement(g=2, rate=3, nu=0.5, c=0.25, b=1)
    assert problem.parameters == {"g": 2.0, "rate": 3.0, "nu": 0.5, "c": 0.25, "b": 1.0}
    nodes, times = samples(1)
    x, t = nodes[:, 0], times[:, None]
    assert problem.lifting.value(nodes, times) == pytest.approx(2 * x * np.exp(-3 * t), abs=8 * EPS)
    assert problem.lifting.rate(nodes, times) == pytest.approx(-6 * x * np.exp(-3 * t), abs=16 * EPS)
    assert problem.lifting.flux[0](nodes, times) == pytest.approx(np.exp(-3 * t) * np.ones_like(x), abs=8 * EPS)
    assert problem.potential.value(x) == pytest.approx(x**4 / 4 + 1, abs=4 * EPS)
    assert problem.potential.slope(x) == pytest.approx(x**3, abs=4 * EPS)


def test_two_problems_of_one_statement_keep_their_own_parameters():
    statement = FormulaProblem(dimension=1, initial="g*x", lifting="g*x", potential="g*u**2/2")
    one, two = statement(g=1.0), statement(g=5.0)
    u = np.array([2.0])
    assert (one.potential.slope(u)[0], two.potential.slope(u)[0]) == (2.0, 10.0)
    nodes = np.array([[0.5]])
    assert one.lifting.value(nodes, u)[0, 0] * 5.0 == two.lifting.value(nodes, u)[0, 0] == 2.5


@pytest.mark.parametrize("missing", ["g", "c"])
def test_a_missing_parameter_of_potential_or_lifting_is_named(missing):
    statement = FormulaProblem(dimension=1, initial="x*(1-x)", lifting="g*x*(1-x)*t", potential="c*u**2", name="flow")
    values = {"g": 1.0, "c": 1.0}
    del values[missing]
    with pytest.raises(ParameterError) as caught:
        statement(**values)
    assert str(caught.value) == f"`{missing}` must be given a number, got None (problem flow)"


# The source of a manufactured solution


@pytest.mark.parametrize(
    ("potential", "values", "slope"),
    [
        (DOUBLE_WELL, {}, lambda u: u**3 - u),
        ("c*u**2/2 + u", {"c": 3.0}, lambda u: 3.0 * u + 1.0),
        ("1 - cos(u)", {}, np.sin),
        ("exp(-u)", {}, lambda u: -np.exp(-u)),
        ("b", {"b": 4.0}, np.zeros_like),
    ],
)
@pytest.mark.parametrize(
    ("dimension", "exact", "u"),
    [
        (1, "exp(-t)*sin(pi*x)", lambda x, t: np.exp(-t) * np.sin(np.pi * x[0])),
        (2, "cos(t)*sin(pi*x)*y*(1-y)", lambda x, t: np.cos(t) * np.sin(np.pi * x[0]) * x[1] * (1 - x[1])),
    ],
    ids=["1d", "2d"],
)
def test_the_slope_of_the_potential_at_the_exact_solution_joins_the_source(
    dimension, exact, u, potential, values, slope
):
    nodes, times = samples(dimension)
    flow = FormulaProblem(dimension=dimension, exact=exact, diffusion="1 + x/2", potential=potential)(**values)
    heat = FormulaProblem(dimension=dimension, exact=exact, diffusion="1 + x/2")()
    found = flow.source(nodes, times) - heat.source(nodes, times)
    wanted = slope(u(nodes.T[:, None, :], times[:, None]))
    scale = 1.0 + np.abs(heat.source(nodes, times)).max()
    assert found == pytest.approx(wanted * np.ones_like(found), abs=16 * EPS * scale)


def test_the_source_that_is_stated_stays_as_it_is():
    nodes, times = samples(1)
    flow = FormulaProblem(dimension=1, initial="x*(1-x)", source="x*t", potential=DOUBLE_WELL)()
    assert flow.source(nodes, times) == pytest.approx(nodes[:, 0] * times[:, None], abs=2 * EPS)
    unforced = with_potential(DOUBLE_WELL)()
    assert not unforced.source(nodes, times).any()


@dimensions
def test_the_source_of_a_lifted_exact_solution_is_that_of_the_whole_of_it(dimension):
    # the lifting enters through the load, not through f
    nodes, times = samples(dimension)
    v, u_b = BUBBLE[dimension], "cos(t)*(1 + x**2)"
    lifted = FormulaProblem(dimension=dimension, exact=f"exp(-t)*{v} + {u_b}", lifting=u_b, diffusion="2 + x")()
    parts = FormulaProblem(dimension=dimension, exact=f"exp(-t)*{v}", diffusion="2 + x")().source(nodes, times)
    x, t = nodes[:, 0], times[:, None]
    # u_b,t - d/dx((2 + x) 2 x cos t) = -sin t (1 + x^2) - cos t (4 + 4x)
    wanted = parts - np.sin(t) * (1 + x**2) - np.cos(t) * (4 + 4 * x)
    assert lifted.source(nodes, times) == pytest.approx(wanted, abs=64 * EPS)


def test_an_exact_solution_with_a_potential_that_is_infinite_there_is_refused():
    with pytest.raises(FormulaError, match="the formulas must be smooth and real, got"):
        FormulaProblem(dimension=1, exact="0", potential="log(u)")


# Liftings


@pytest.mark.parametrize(
    ("dimension", "coordinate"), [(1, "y"), (1, "z"), (2, "z")], ids=["y-in-1d", "z-in-1d", "z-in-2d"]
)
def test_a_coordinate_outside_the_dimension_is_refused(dimension, coordinate):
    text = f"1 + {coordinate}"
    with pytest.raises(FormulaError) as caught:
        FormulaProblem(dimension=dimension, initial=BUBBLE[dimension], lifting=text)
    names = ", ".join("xyz"[:dimension])
    assert str(caught.value) == (
        f"`lifting` must use the coordinates {names} of a {dimension}-D problem, got {coordinate} in {text!r}"
    )


@pytest.mark.parametrize(
    ("lifting", "diffusion", "forms"),
    [
        ("1 + x", "1 + x", (Separable, Separable, Separable, Separable)),
        ("exp(-t)*x", "1 + x*t", (Separable, Separable, Separable, Separable)),
        ("1 + x**2", "2 + sin(x*t)", (Separable, Separable, Separable, NonSeparable)),
        ("sin(x*t)", "1", (NonSeparable, NonSeparable, NonSeparable, NonSeparable)),
    ],
)
def test_each_function_of_a_lifting_splits_where_it_can(lifting, diffusion, forms):
    initial = "0" if lifting.startswith("sin") else lifting.replace("exp(-t)*", "")
    found = FormulaProblem(dimension=1, initial=initial, lifting=lifting, diffusion=diffusion)().lifting
    assert (type(found.value), type(found.rate), type(found.gradient[0]), type(found.flux[0])) == forms


def test_what_does_not_depend_on_time_is_steady():
    found = FormulaProblem(dimension=2, initial="1 + x*y", lifting="1 + x*y", diffusion="1 + t")().lifting
    assert found.value.steady
    assert found.gradient[1].steady
    assert not found.flux[0].steady
    nodes, times = samples(2)
    assert found.rate.steady
    assert not found.rate(nodes, times).any()
    assert found.gradient[1](nodes, times) == pytest.approx(np.tile(nodes[:, 0], (5, 1)), abs=EPS)


@dimensions
def test_a_lifting_has_one_gradient_and_one_flux_in_each_direction(dimension):
    found = FormulaProblem(dimension=dimension, initial="3", lifting="3")().lifting
    assert len(found.gradient) == len(found.flux) == dimension
    nodes, times = samples(dimension)
    assert (found.value(nodes, times) == 3.0).all()
    assert not any(flux(nodes, times).any() for flux in found.flux)


def test_a_lifting_that_contradicts_the_solution_is_refused_with_the_parameters():
    statement = FormulaProblem(dimension=2, exact="g*x + y", lifting="x + y", potential="c*u**2")
    assert statement(g=1.0, c=2.0).lifting is not None
    with pytest.raises(ProblemError) as caught:
        statement(g=1.5, c=2.0)
    assert str(caught.value) == (
        "`exact` must equal `lifting` on the boundary, got a difference of 0.5 there for g = 1.5, c = 2"
    )


@pytest.mark.parametrize("lifting", ["x*(1-x)*t", "x*(1-x)"])
def test_a_lifting_may_vanish_on_the_boundary(lifting):
    assert FormulaProblem(dimension=1, exact="exp(-t)*sin(pi*x)", lifting=lifting)().lifting is not None


# Statements are values, messages are lines


def test_potential_and_lifting_belong_to_the_identity_of_a_statement():
    plain = FormulaProblem(dimension=1, initial="x*(1-x)")
    flow = with_potential(DOUBLE_WELL)
    lifted = FormulaProblem(dimension=1, initial="x*(1-x)", lifting="x*t")
    assert len({plain, flow, lifted, with_potential("u**4"), with_potential(DOUBLE_WELL)}) == 4
    assert flow == with_potential(DOUBLE_WELL)
    assert derived(flow) is derived(with_potential(DOUBLE_WELL))
    assert derived(flow) is not derived(plain)


@pytest.mark.parametrize(
    "formulas",
    [
        {"potential": "x*\nu"},
        {"potential": "u*t" + " + u" * 900},
        {"potential": "u +\n+ lambda: 3"},
        {"potential": "u" * 5000},
        {"potential": DOUBLE_WELL, "source": "u\n*x"},
        {"lifting": "y\n+ 1"},
        {"lifting": "x\n+ os.getcwd()"},
        {"lifting": "x/(x -\n x)"},
    ],
    ids=lambda formulas: "-".join(formulas) + str(len(str(formulas))),
)
def test_messages_are_one_line_of_bounded_length(formulas):
    with pytest.raises(FormulaError) as caught:
        FormulaProblem(dimension=1, initial="x*(1-x)", **formulas)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("`")
    assert len(message) <= 900


def test_every_function_of_the_grammar_can_be_in_a_potential_and_in_a_lifting():
    for name in FUNCTIONS:
        potential = with_potential(f"{name}(u/4 + 1/2)")().potential
        lifting = FormulaProblem(dimension=1, initial=f"{name}(x/4 + 1/2)", lifting=f"{name}(x/4 + 1/2)")().lifting
        u, h = np.linspace(0.1, 0.9, 5), 1e-5
        difference = (potential.value(u + h) - potential.value(u - h)) / (2 * h)
        assert potential.slope(u) == pytest.approx(difference, abs=1e-8)
        assert lifting.gradient[0](u[:, None], np.zeros(1))[0] == pytest.approx(difference, abs=1e-8)
        assert lifting.value(u[:, None], np.zeros(1))[0] == pytest.approx(potential.value(u), abs=2 * EPS)


def test_a_gradient_flow_is_refused_by_the_midpoint_rule_in_one_line():
    problem = with_potential(DOUBLE_WELL, final_time=0.1)()
    dictionary = pde.Dictionary("transnet", N=6, gamma=2)
    with pytest.raises(ParameterError) as caught:
        pde.solve(problem, dictionary, seed=0, quadrature=12, dt=0.05)
    assert str(caught.value) == (
        "`time_integrator` must be stabilized_semi_implicit or imex_bdf_2 for a problem with a potential, "
        "got 'implicit_midpoint'"
    )
    ds = pde.solve(
        problem, dictionary, seed=0, quadrature=12, dt=0.05, time_integrator="stabilized_semi_implicit",
        stabilization=2.0,
    )  # fmt: skip
    assert (np.diff(ds.free_energy_history.values) < 0.0).all()
    assert float(ds.energy_increment) == np.diff(ds.free_energy_history.values).max()


@pytest.mark.parametrize("lifting", ["x + log(x)", "x + 1/x", "x + log(1 - x)"])
def test_a_lifting_that_is_infinite_on_the_boundary_is_refused(lifting):
    with pytest.raises(ProblemError, match="difference of inf"):
        FormulaProblem(1, initial="x", lifting=lifting)()
