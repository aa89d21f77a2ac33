"""Manufactured solutions: the derived source satisfies u_t - div(a grad u) = f.

The reference differentiates an independent transcription of each formula numerically in 40 digits, so that it shares
neither the parser nor the symbolic derivation with the package.
"""

import mpmath
import numpy as np
import pytest
from mpmath import mp

from evogt_study import pde

EPS = np.finfo(float).eps
DIGITS = 40

# dimension, exact and diffusion as formulas and as plain functions of (x, ..., t, parameters)
CASES = {
    "oscillatory_1d": (
        1, "exp(-t)*sin(16*pi*x)", lambda x, t, epsilon: mp.exp(-t) * mp.sin(16 * mp.pi * x),
        "1 + cos(2*pi*x/epsilon)/2", lambda x, t, epsilon: 1 + mp.cos(2 * mp.pi * x / epsilon) / 2,
        {"epsilon": 0.1},
    ),
    "moving-1d": (
        1, "x*(1-x)*cos(3*t)*exp(x*t)", lambda x, t, k: x * (1 - x) * mp.cos(3 * t) * mp.exp(x * t),
        "2 + tanh(k*(x - t))", lambda x, t, k: 2 + mp.tanh(k * (x - t)),
        {"k": 4.0},
    ),
    "functions-1d": (
        1, "sin(pi*x)*sqrt(1 + t)*(atan(3*x) + log(2 + x) + cosh(x) - sinh(x**2)/3)",
        lambda x, t: mp.sin(mp.pi * x) * mp.sqrt(1 + t)
        * (mp.atan(3 * x) + mp.log(2 + x) + mp.cosh(x) - mp.sinh(x**2) / 3),
        "1 + asin(x/2) + acos(x/3) + tan(x/2)*t**2",
        lambda x, t: 1 + mp.asin(x / 2) + mp.acos(x / 3) + mp.tan(x / 2) * t**2,
        {},
    ),
    "nonseparable-2d": (
        2, "x*(1-x)*y*(1-y)*sin(3*x + 2*y - 5*t)",
        lambda x, y, t: x * (1 - x) * y * (1 - y) * mp.sin(3 * x + 2 * y - 5 * t),
        "1 + exp(-(x - t)**2 - y**2)", lambda x, y, t: 1 + mp.exp(-((x - t) ** 2) - y**2),
        {},
    ),
}  # fmt: skip
cases = pytest.mark.parametrize("case", CASES)

# The largest argument of a sine: it is rounded before the sine is taken, and the sine is off by its size in eps.
ARGUMENTS = {"oscillatory_1d": 63}


def stated(case):
    dimension, exact, _, diffusion, _, parameters = CASES[case]
    return pde.FormulaProblem(dimension=dimension, exact=exact, diffusion=diffusion)(**parameters)


def samples(dimension, count=6):
    rng = np.random.default_rng(dimension)
    return rng.uniform(0.02, 0.98, (count, dimension)), rng.uniform(0.0, 1.0, 3)


def source_terms(u, a, point, t, parameters):
    """u_t, and -a u_ll and -a_l u_l of every direction l, by numerical differentiation in 40 digits."""
    arguments = [mpmath.mpf(float(value)) for value in (*point, t)]

    def derivative(function, axis, order=1):
        def along(s):
            return function(*arguments[:axis], s, *arguments[axis + 1 :], **parameters)

        return mp.diff(along, arguments[axis], order)

    terms = [derivative(u, len(point))]
    for axis in range(len(point)):
        terms.append(-a(*arguments, **parameters) * derivative(u, axis, 2))
        terms.append(-derivative(a, axis) * derivative(u, axis))
    return terms


@cases
def test_the_derived_source_satisfies_the_equation(case):
    dimension, _, u, _, a, parameters = CASES[case]
    problem = stated(case)
    nodes, times = samples(dimension)
    found = problem.source(nodes, times)
    assert found.shape == (len(times), len(nodes))
    with mp.workdps(DIGITS):
        for n, t in enumerate(times):
            for q, point in enumerate(nodes):
                terms = source_terms(u, a, point, t, parameters)
                noise = EPS * ARGUMENTS.get(case, 16) * float(sum(map(abs, terms)))
                assert found[n, q] == pytest.approx(float(sum(terms)), abs=noise)
