"""The data of a problem that is made of functions: what they must agree on, and what the check says otherwise."""

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.errors import ProblemError
from evogt_study.pde.galerkin.problem import Lifting, NonSeparable, Problem, Separable, check_data

ONE = Separable(lambda nodes: np.ones((1, len(nodes))))


def heat(exact, initial, **more):
    """A 1-D problem whose solution is `exact`(x, t) and whose initial value is `initial`(x)."""
    solution = NonSeparable(lambda nodes, t: exact(nodes[:, 0], t))
    return Problem(1, ONE, lambda nodes: initial(nodes[:, 0]), exact=solution, **more)


def decaying(x, t):
    return np.exp(-(np.pi**2) * t) * np.sin(np.pi * x)


def cosine(x, t=0.0):
    return np.exp(-(np.pi**2) * t) * np.cos(np.pi * x)


def late(x, t):
    return decaying(x, t) + (t > 0.5)


X = Separable(lambda nodes: nodes[:, :1].T)
ZERO = Separable(lambda nodes: np.zeros((1, len(nodes))))
LIFTED = {"lifting": Lifting(X, ZERO, (ONE,), (ONE,))}


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (heat(cosine, cosine), "`exact` must vanish on the boundary, got a value of 1 there"),
        (heat(cosine, cosine, parameters={"k": 2.0}),
         "`exact` must vanish on the boundary, got a value of 1 there for k = 2"),
        (heat(decaying, lambda x: decaying(x, 0.0), **LIFTED),
         "`exact` must equal `lifting` on the boundary, got a difference of 1 there"),
        (heat(decaying, lambda x: 3.0 * decaying(x, 0.0)),
         "`exact` at t = 0 must equal `initial`, got a difference of 1.98"),
        (heat(lambda x, t: t * decaying(x, t), np.zeros_like), None),
        (heat(decaying, lambda x: decaying(x, 0.0)), None),
        (heat(lambda x, t: decaying(x, t) + x, lambda x: decaying(x, 0.0) + x, **LIFTED), None),
    ],
    ids=["exact", "with its parameters", "lifted", "start", "from zero", "consistent", "consistent, lifted"],
)  # fmt: skip
def test_functions_are_checked_as_formulas_are(problem, message):
    """A dictionary can have no boundary values: the run would end with an error of 0.1 and nothing to say why."""
    dictionary = pde.Dictionary("transnet", N=10, gamma=3)
    if message is None:
        assert np.isfinite(pde.solve(problem, dictionary, seed=0, quadrature=30, dt=0.01, final_time=0.02).error)
    else:
        with pytest.raises(ProblemError) as caught:
            pde.solve(problem, dictionary, seed=0, quadrature=30, dt=0.01, final_time=0.02)
        assert str(caught.value).startswith(message)


def test_the_solution_is_looked_at_up_to_the_final_time_only():
    check_data(heat(late, lambda x: decaying(x, 0.0)), 0.5)
    check_data(heat(late, lambda x: decaying(x, 0.0), final_time=0.5))
    with pytest.raises(ProblemError, match="a value of 1 there"):
        check_data(heat(late, lambda x: decaying(x, 0.0)), 0.6)
