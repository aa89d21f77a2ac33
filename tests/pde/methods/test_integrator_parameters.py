"""Time integrators from outside of the package: registered or installed, they run by name with no file changed."""

from dataclasses import dataclass

import numpy as np
import pytest
from helpers import computed, keys, section

from evogt_study import pde
from evogt_study.errors import ParameterError, StudyError
from evogt_study.pde.integrators import INTEGRATORS, Integrator, StabilizedSemiImplicit
from evogt_study.pde.numerics import Trajectory
from evogt_study.schema.variables import Status
from evogt_study.study.study import Study

HEAT = pde.FormulaProblem(1, exact="exp(-t)*sin(pi*x)", diffusion="1/10")
RUN = {"quadrature": 24, "validation": 16, "final_time": 1.0}


@dataclass(frozen=True)
class OwnEuler(Integrator):
    name = "own_euler"

    def times(self, grid):
        return grid.times_of(tuple(range(1, grid.steps + 1)))

    def march(self, system, grid):
        states = [system.initial]
        for t in self.times(grid):
            matrix = np.eye(len(system.initial)) + grid.dt * system.stiffness(t)
            states.append(np.linalg.solve(matrix, states[-1] + grid.dt * system.load(np.array([t]))[0]))
        return Trajectory(grid.observed_times, np.array(states)[list(grid.observed)])


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """One more integrator, as long as a test runs."""
    monkeypatch.setitem(INTEGRATORS.kinds, OwnEuler.name, OwnEuler)


def toml(method="evolution", **constants):
    """A study of two time steps."""
    given = {"dictionary": '"transnet"', "N": 10, "gamma": 3, "seed": 0, **RUN, **constants}
    problem = {"dimension": 1, "exact": '"exp(-t)*sin(pi*x)"', "diffusion": '"1/10"'}
    head = f'name = "tiny"\nmethod = "{method}"\n'
    return head + section("axes", {"dt": [0.025, 0.0125]}) + section("constants", given) + section("problem", problem)


def solved(integrator, dt=0.025):
    return pde.solve(HEAT(), pde.Dictionary("transnet", N=10, gamma=3), 0, dt=dt, time_integrator=integrator, **RUN)


def test_each_is_registered_under_its_own_name():
    assert {name: kind.name for name, kind in INTEGRATORS.kinds.items()} == {name: name for name in INTEGRATORS}


def test_one_that_is_registered_runs_in_studies_and_alone():
    status, _, found = computed(toml(time_integrator='"own_euler"'))
    assert status.tolist() == [Status.ok, Status.ok]
    assert found["error"][0] / found["error"][1] == pytest.approx(2.0, abs=0.02)  # order one
    alone = solved("own_euler")
    assert alone.time_integrator == "own_euler"
    assert found["error"][0] == pytest.approx(float(alone.error), rel=1e-9)
    assert float(alone.error) == pytest.approx(float(solved(StabilizedSemiImplicit(0.0)).error), rel=1e-9)  # its step
    assert alone.equals(solved(OwnEuler()))
    names, given = [*INTEGRATORS], {"stabilization": 0, "rtol": 1e-6, "atol": 1e-8}
    assert len({keys(toml(time_integrator=f'"{name}"', **given))[0] for name in names}) == len(names)


@pytest.mark.parametrize(
    ("method", "constants"),
    [
        ("evolution", {"reference": '"finite_difference"', "reference_points": 15}),
        ("finite_difference", {"points": 15, **dict.fromkeys(("dictionary", "N", "gamma", "seed", "quadrature"))}),
    ],
)
def test_finite_differences_refuse_it_by_name(method, constants):
    with pytest.raises(StudyError) as caught:
        Study.from_text(toml(method, time_integrator='"own_euler"', **constants))
    wanted = "implicit_midpoint or stabilized_semi_implicit for finite differences, got 'own_euler'"
    assert str(caught.value) == f"`time_integrator` must be {wanted} (study, constants.time_integrator)"


def test_a_potential_is_refused_unless_the_scheme_says_otherwise():
    flow = pde.FormulaProblem(1, initial="sin(2*pi*x)/2", potential="(u**2-1)**2/4")()
    with pytest.raises(ParameterError, match="for a problem with a potential, got 'own_euler'"):
        pde.solve(flow, pde.Dictionary("transnet", N=5, gamma=3), 0, dt=0.1, time_integrator="own_euler", **RUN)


@pytest.mark.parametrize(
    ("term", "message"), [({"reaction": "u**2"}, "a nonlinear reaction"), ({"advection": ["1"]}, "an advection")]
)
def test_terms_that_it_may_not_know_are_refused_unless_it_says_otherwise(term, message, monkeypatch):
    problem, dictionary = pde.FormulaProblem(1, initial="x*(1-x)", **term)(), pde.Dictionary("transnet", N=5, gamma=3)
    with pytest.raises(ParameterError, match=f"must be one that admits {message}, got 'own_euler'"):
        pde.solve(problem, dictionary, 0, dt=0.1, time_integrator="own_euler", **RUN)
    monkeypatch.setattr(OwnEuler, "GENERAL", True)
    assert pde.solve(problem, dictionary, 0, dt=0.1, time_integrator="own_euler", **RUN).time_integrator == "own_euler"


@pytest.mark.parametrize("name", ["", "euler", "Implicit_Midpoint"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(ParameterError) as caught:
        solved(name)
    assert str(caught.value) == f"`time_integrator` must be {INTEGRATORS.wanted}, got {name!r}"
