"""Error intervals of hard linear runs contain the true errors; of ordinary long runs they are finite.

Hard: layers, pulses, ramps, fast oscillations, weak or changing diffusion, advection, growth, liftings, and runs with
too few features, nodes or steps.  Ordinary: smooth problems up to T = 20.
"""

import numpy as np
import pytest

from evogt_study.errors import InputError, RunError
from evogt_study.pde.certificates.certify import certify, check_certificates, find_reference
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.integrators import INTEGRATORS
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, compute_stage, solve_arrays
from evogt_study.pde.problems import FormulaProblem

SEED = 20261126
INTERVAL = ("error_lower", "error_upper")


def time_factor(rng, T, hard):
    """A function of t, fast or steep if it is hard."""
    kind = rng.choice(["decay", "wave", "pulse", "ramp"] if hard else ["decay", "wave"])
    if kind == "decay":
        return f"exp(-{rng.uniform(0.1, 8.0) / T:.4f}*t)"
    if kind == "wave":
        return f"cos({rng.uniform(1.0, 120.0) / T if hard else rng.uniform(0.5, 20.0):.4f}*t)"
    place, width = T * rng.uniform(0.1, 0.95), T * rng.uniform(0.004, 0.1)
    return (
        f"exp(-((t - {place:.5f})/{width:.5f})**2)" if kind == "pulse" else f"(1 + tanh((t - {place:.5f})/{width:.5f}))"
    )


def space_factor(rng, d, hard):
    """A function of x that vanishes on the boundary."""
    if not hard or rng.random() < 0.5:
        return "*".join(f"sin({rng.integers(1, (24 if hard else 6) // d)}*pi*{x})" for x in "xy"[:d])
    inside = "*".join(f"{x}*(1 - {x})" for x in "xy"[:d])
    width, place = rng.uniform(0.02, 0.3) * d, rng.uniform(0.2, 0.8)
    layer = {"bump": f"exp(-((x - {place:.3f})/{width:.4f})**2)", "layer": f"tanh((x - {place:.3f})/{width:.4f})",
             "edge": f"exp(-x/{width:.4f})", "front": f"tanh((x - {place:.3f} - t/7)/{width:.4f})"}  # fmt: skip
    return f"4*{inside}*{layer[str(rng.choice(list(layer)))]}"


def draw_problem(rng, hard):
    """A problem with its exact solution, and T."""
    d = 2 if hard and rng.random() < 0.2 else 1
    T = float(rng.choice([0.1, 1.0, 5.0, 20.0] if hard else [2.0, 5.0, 10.0, 20.0]))
    terms = [
        f"{rng.uniform(0.2, 1.0):.3f}*{time_factor(rng, T, hard)}*{space_factor(rng, d, hard)}"
        for _ in range(rng.integers(1, 4))
    ]
    given = {"dimension": d, "diffusion": f"{10 ** rng.uniform(-3.5 if hard else -1.5, 0.0):.5f}"}
    if hard and rng.random() < 0.5:
        size, wave = rng.uniform(0.1, 0.9), f"cos(2*pi*x/{rng.uniform(0.05, 0.5):.3f})"
        given["diffusion"] += f"*(1 + {size:.3f}*{wave}*{rng.choice(['1', time_factor(rng, T, True) + '/2'])})"
    if hard and rng.random() < 0.3:
        given["advection"] = [f"{rng.uniform(-1.0, 1.0):.3f}*(1 + x/2)", "x/3"][:d]
    if rng.random() < 0.3:
        given["reaction"] = f"{rng.uniform(-3.0, 2.0 / T if hard else 0.0):.3f}*u"
    if hard and rng.random() < 0.2:
        lifting = f"(1 + x)*{time_factor(rng, T, False)}"
        terms.append(lifting)
        given["lifting"] = lifting
    return FormulaProblem(exact=" + ".join(terms), **given).until(T), T


def draw_run(rng, problem, T, hard):
    """A run, good or bad."""
    d = problem.dimension
    N, points, steps = (int(rng.choice(each)) for each in ([20, 40, 80], {1: [120, 240], 2: [28, 40]}[d], [100, 400]))
    spoiled = rng.integers(0, 6) if hard else 5
    N, points, steps = (8 if spoiled == 0 else N, 14 if spoiled == 1 else points, 6 if spoiled == 2 else steps)
    family = str(rng.choice(["gtransnet", "transnet", "legendre", "sine"]))
    more = {"gamma": float(rng.uniform(2.0, 6.0 if d == 2 else 20.0))} if family.endswith("transnet") else {}
    if family == "gtransnet":
        more["N1"] = 2 * N
    integrator = INTEGRATORS[str(rng.choice(["radau_iia_2", "gauss_2", "sdirk_2", "implicit_euler"]))]()
    if problem.advection is None:
        integrator = INTEGRATORS[str(rng.choice(["implicit_midpoint", "radau_iia_2", "gauss_2", "trapezoidal"]))]()
    return Discretisation(
        Dictionary(family, N=N, **more), int(rng.integers(0, 1000)), 1e-12, QuadratureRule("gauss_legendre", points),
        QuadratureRule("gauss_legendre", {1: 400, 2: 50}[d]), TimeGrid.from_step(T, T / steps, 2), integrator,
    )  # fmt: skip


def judge(number, hard):
    """(error, lower, upper, ends of the bound's number) of one run; None if there is no such run or certificate."""
    rng = np.random.default_rng([SEED, hard, number])
    try:
        problem, T = draw_problem(rng, hard)
        check_certificates(INTERVAL, problem, T)
        solution = solve_arrays(problem, draw_run(rng, problem, T, hard))
        reference = find_reference(problem, T)
        found = certify(solution, INTERVAL, compute_stage, "", reference)
    except (InputError, RunError):
        return None
    return float(solution.errors[-1]), found["error_lower"], found["error_upper"]


def judged_runs(count, hard, first=0):
    """The first `count` runs from a number on that have an interval."""
    found = []
    number = first
    while len(found) < count:
        each = judge(number, hard)
        number += 1
        if each is not None and np.isfinite(each[0]):
            found.append((number - 1, *each))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("hard", "count"), [(True, 300), (False, 100)])
def test_intervals(hard, count):
    with np.errstate(all="ignore"):
        found = judged_runs(count, hard)
    assert [run for run in found if not run[2] <= run[1] <= run[3]] == []
    if not hard:
        assert sum(np.isinf(upper) for *_, upper in found) <= 0.1 * count


def test_an_ordinary_long_run_has_a_finite_interval():
    ((_, error, lower, upper),) = judged_runs(1, False)
    assert lower <= error <= upper < 2.0 * error
