"""Jumps and kinks that symbolic derivatives lose are refused; smooth, oscillating and admissible data are not."""

import numpy as np
import pytest

from evogt_study.errors import ProblemError
from evogt_study.formulas import parse
from evogt_study.pde.problems.expressions import MODES, WeakIdentity, measure_defect
from evogt_study.pde.problems.formula_problem import FormulaProblem

IN_1D, IN_2D = "exp(-t)*sin(pi*x)", "exp(-t)*sin(pi*x)*sin(2*pi*y)"
IN_3D = "exp(-t)*sin(pi*x)*sin(2*pi*y)*sin(pi*z)"
BALL = "((x - 0.4)**2 + (y - 0.5)**2 + (z - 0.3)**2 - 0.16)"


def step(of):
    """A formula that is -1 and 1 on the two sides of a zero of `of`."""
    return f"abs({of})/({of})"


def test_the_parameters_that_make_the_jump_are_named():
    statement = FormulaProblem(1, exact=IN_1D, diffusion=f"1 + jump*{step('x - 0.3')}")
    assert statement(jump=0.0).dimension == 1
    with pytest.raises(ProblemError, match=r"of 0.33 in the weak form for jump = 0.5. Smooth the formulas, or state"):
        statement(jump=0.5)


@pytest.mark.parametrize(
    ("dimension", "formulas"),
    [
        (1, {"exact": IN_1D, "diffusion": "1 + abs(x - 1/2)"}),
        (1, {"exact": IN_1D, "diffusion": "1 + abs(x - 0.3141)"}),
        (1, {"exact": "exp(-t)*sin(7*pi*x)", "diffusion": "1 + 1.617*abs(x - 0.4259)"}),
        (1, {"exact": IN_1D, "diffusion": f"1 + {step('x - 1/2')}/2"}),  # where the flux is zero
        (1, {"initial": "sin(pi*x)", "diffusion": f"1 + {step('x - 0.3')}/2"}),  # nothing is derived
        (1, {"initial": "abs(x - 1/3)", "lifting": "abs(x - 1/3)"}),
        (1, {"exact": "exp(-t)*x**0.6*(1-x)"}),
        (1, {"exact": "x*(1-x)*tanh((x - 0.4)/1e-4)"}),
        (1, {"exact": "0"}),
        (1, {"exact": "1e-30*x*(1-x)", "diffusion": "1e-12", "potential": "(u**2 - 1)**2/4"}),
        (2, {"exact": IN_2D, "diffusion": "1 + abs(x + y - 0.83)"}),
        (2, {"exact": "exp(-t)*sin(pi*x)*sin(5*pi*y)", "diffusion": "1 + 1.294*abs(x - 0.8730)"}),
        # the flux jumps along the interface, not across it
        (2, {"exact": "exp(-t)*sin(pi*x)*sin(pi*y)", "diffusion": f"2 + {step('x - y')}"}),
        (3, {"exact": IN_3D, "diffusion": f"1 + abs({BALL})"}),
    ],
)  # fmt: skip
def test_what_is_right_in_the_weak_sense_is_accepted(dimension, formulas):
    assert FormulaProblem(dimension, **formulas)().dimension == dimension


@pytest.mark.parametrize("epsilon", [0.2, 0.05, 0.01, 1e-3, 1e-4])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_oscillations_finer_than_the_rule_are_no_defect(dimension, epsilon):
    oscillation = "*".join(f"cos(2*pi*{x}/epsilon)" for x in "xyz"[:dimension])
    exact = {1: "exp(-t)*sin(16*pi*x)", 2: IN_2D, 3: IN_3D}[dimension]
    assert (
        FormulaProblem(dimension, exact=exact, diffusion=f"1 + {oscillation}/2")(epsilon=epsilon).dimension == dimension
    )


SMOOTH = ("2 + sin({s}/{e} - t)", "1/10 + exp(-({s})**2/{e})", "2 + tanh(({s})/{e})", "1/50 + 1/(1 + ({s})**2/{e})",
          "1 + sqrt(({s})**2 + {e}**2)")  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("dimension", [1, 2])
def test_smooth_data_of_many_kinds_are_accepted(dimension):
    rng = np.random.default_rng(dimension)
    for _ in range(40 // dimension**2):
        plane = " + ".join(f"({rng.uniform(-1, 1):.4f})*({x} - {rng.uniform():.4f})" for x in "xyz"[:dimension])
        form = rng.choice(SMOOTH).format(s=plane, e=f"{10 ** rng.uniform(-3, 0):.4g}")
        exact = "exp(-t)*" + "*".join(f"sin({rng.integers(1, 9)}*pi*{x})" for x in "xyz"[:dimension])
        assert FormulaProblem(dimension, exact=exact, diffusion=form)().dimension == dimension


def test_the_defect_is_the_dual_norm_over_the_sines():
    """(0, v) - (q, v') = 2 v(1/2) for q = -1 and 1 left and right of 1/2, a multiple of a value at a point."""
    identity = WeakIdentity(parse("0"), ((0, parse(step("x - 1/2"))),))
    odd = np.arange(1, MODES[1] + 1, 2)
    wanted = 2.0 * np.sqrt(np.sum(2.0 / (np.pi * odd) ** 2))  # of ||q|| = 1
    assert measure_defect(identity, 1, {}, (0.3,)) == pytest.approx(wanted, rel=1e-13)
    assert measure_defect(identity, 1, {}, (0.0, 0.3)) == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("interface", ["x - 1/3", "y - 0.7", "x + y - 0.9", "x - y"])
def test_a_function_that_jumps_has_no_weak_gradient(interface):
    jumping = parse(f"x + t*{step(interface)}")
    identities = [WeakIdentity.from_flux((axis, jumping)) for axis in (0, 1)]
    later, first = ([measure_defect(each, 2, {}, (t,)) for each in identities] for t in (0.3, 0.0))
    assert max(later) > 0.1
    assert first == [0.0, 0.0]
