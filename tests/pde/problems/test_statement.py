"""Formula problems: values on the boundary, and how the data split into time and space; mistakes: mistakes.txt."""

import re
import subprocess
import sys

import numpy as np
import pytest

from evogt_study.errors import AccuracyWarning
from evogt_study.pde.galerkin.problem import NonSeparable
from evogt_study.pde.problems.formula_problem import FormulaProblem

EPS = np.finfo(float).eps

BUBBLE = {1: "x*(1-x)", 2: "x*(1-x)*y*(1-y)", 3: "x*(1-x)*y*(1-y)*z*(1-z)"}


def sourced(source, dimension=1, **values):
    """The source of a problem that states it."""
    return FormulaProblem(dimension=dimension, initial=BUBBLE[dimension], source=source)(**values).source


def by_numpy(text, nodes, times, **values):
    """A formula in NumPy's arithmetic at all nodes and times, (T, Q), without parser or symbols."""
    names = {"sin": np.sin, "cos": np.cos, "exp": np.exp, "sqrt": np.sqrt, "tanh": np.tanh, "log": np.log, "pi": np.pi}
    columns = dict(zip("xyz", nodes.T[:, None, :], strict=False))
    value = eval(text, {"__builtins__": {}}, {**names, **columns, **values, "t": times[:, None]})
    return np.broadcast_to(value, (len(times), len(nodes)))


def samples(dimension, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.0, 1.0, (11, dimension)), rng.uniform(0.1, 1.0, 5)


def test_a_source_or_initial_value_may_have_corners():
    nodes, times = samples(1)
    found = sourced("abs(x - t)")
    assert found(nodes, times) == pytest.approx(np.abs(nodes[:, 0] - times[:, None]), abs=2 * EPS)
    hat = FormulaProblem(dimension=1, initial="1/2 - abs(x - 1/2)")()
    assert hat.initial(nodes) == pytest.approx(0.5 - np.abs(nodes[:, 0] - 0.5), abs=2 * EPS)


@pytest.mark.parametrize(
    ("formulas", "message"),
    [
        ({"initial": "x"}, "`initial` at t = 0 should vanish on the boundary, got a value of 1 there"),
        ({"initial": "1"}, "`start = { implicit_euler_half_steps = 4 }`"),
        ({"initial": "x", "lifting": "1"}, "should equal `lifting` on the boundary, got a difference of 1 there"),
    ],
)
def test_initial_data_that_do_not_meet_the_boundary_values_give_a_warning(formulas, message):
    with pytest.warns(AccuracyWarning, match=re.escape(message)):
        FormulaProblem(dimension=1, **formulas)()


def test_a_tolerance_of_boundary_values():
    formulas = {"dimension": 1, "exact": "exp(-t)*(x*(1 - x) + 1e-6)"}
    problem = FormulaProblem(**formulas, boundary_tolerance=1e-5)
    assert problem().boundary_tolerance == problem.content["boundary_tolerance"] == 1e-5


@pytest.mark.parametrize(
    ("dimension", "exact", "values"),
    [
        (1, "sin(40*pi*x)", {}),
        (1, "exp(-t)*(sin(pi*x) + sin(2*pi*x/epsilon)/5)", {"epsilon": 0.05}),
        (1, "1e-30*x*(1-x)", {}),
        (1, "1e30*sin(3*pi*x)", {}),
        (1, "0", {}),
        (2, "sin(16*pi*x)*sin(8*pi*y)*exp(-t)", {}),
        (3, "sin(2*pi*x)*y*(1-y)*sin(3*pi*z)", {}),
    ],
)
def test_rounding_on_the_boundary_is_no_boundary_value(dimension, exact, values):
    assert FormulaProblem(dimension=dimension, exact=exact)(**values).dimension == dimension


FACTORS_OF_TIME = ["exp(-t)", "cos(3*t)", "(1 + t**2)", "sqrt(1 + t)", "1/(2 + t)", "t", "2.5"]
FACTORS_OF_SPACE = ["sin(pi*x)", "x*(1 - y)", "exp(x - y)", "cos(k*x)", "tanh(y)", "(x + y)**2", "1/(1 + k*x)"]


@pytest.mark.parametrize("seed", range(20))
def test_separated_and_direct_evaluation_agree(seed):
    rng = np.random.default_rng(seed)
    text = " + ".join(
        f"{rng.choice(FACTORS_OF_TIME)}*{rng.choice(FACTORS_OF_SPACE)}*({rng.choice(FACTORS_OF_TIME)} + k)"
        for _ in range(4)
    )
    nodes, times = samples(2, seed)
    split = sourced(text, 2, k=1.7)
    wanted = by_numpy(text, nodes, times, k=1.7)
    size = np.abs(wanted).max()
    assert not isinstance(split, NonSeparable)
    assert split(nodes, times) == pytest.approx(wanted, abs=8 * EPS * size)
    # the same formula on the general path: a factor that ties time to space and is one
    tied = sourced(f"({text})*(sin(x*t)**2 + cos(x*t)**2)", 2, k=1.7)
    assert isinstance(tied, NonSeparable)
    assert tied(nodes, times) == pytest.approx(wanted, abs=16 * EPS * size)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_factors_that_overflow_apart_have_the_value_of_their_product():
    # exp(t/epsilon) and exp(-x/epsilon) leave the range of floats where exp((t - x)/epsilon) does not
    nodes, times = np.array([[0.999], [1.0]]), np.array([1.0])
    found = sourced("exp((t - x)/epsilon)", epsilon=1e-3)(nodes, times)
    assert found == pytest.approx(np.array([[np.e, 1.0]]), rel=1e-12, abs=0.0)  # the exponent's rounding, 1e3 eps


def tower(levels):
    """A power in a product in a power ...: its exponent is 64^levels, and each level is admitted by itself."""
    text = "x + t"
    for _ in range(levels):
        text = f"(({text})**64*y)"
    return text


# powers stacked through products, and a power that is a number at t = 0
EXPENSIVE = {"source": tower(6), "exact": f"{BUBBLE[2]}*9**(9**9*(1-t))"}
PROGRAM = """
import sys
from evogt_study.errors import FormulaError
from evogt_study.pde.problems.formula_problem import FormulaProblem
for key, text in zip(sys.argv[1::2], sys.argv[2::2]):
    formulas = {'initial': 'x*(1-x)*y*(1-y)'} if key == 'source' else {}
    try: FormulaProblem(dimension=2, **formulas, **{key: text})
    except FormulaError: pass
"""


def test_a_formula_problem_cannot_occupy_the_machine():
    """In a process that can be stopped: if the exact value is tried, it is computed in C for minutes."""
    arguments = [each for pair in EXPENSIVE.items() for each in pair]
    try:
        subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, timeout=10, check=True)
    except subprocess.TimeoutExpired:
        pytest.fail("a formula was still being read after 10 s")
