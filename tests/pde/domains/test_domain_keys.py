"""Keys distinguish domains by type and by each parameter: registered types, and a type derived from each."""

import itertools
import json
from dataclasses import dataclass, field, fields, make_dataclass, replace

import numpy as np
import pytest

from evogt_study import pde
from evogt_study.errors import ParameterError
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.domains import DOMAINS, Box, Disk, Mesh, Polygon, UnitCube, describe_domain, make_domain
from evogt_study.pde.methods.problem_method import ProblemSource
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, list_stage_keys
from evogt_study.schema.values import dump_canonical, hash_text

RULE = QuadratureRule("gauss_legendre", 4)
RUN = Discretisation(Dictionary("sine", 4), 0, 1e-12, RULE, RULE, TimeGrid.from_step(0.1, 0.1))
ON_THE_DOMAIN = ("trial functions", "retained space", "nodal data", "Galerkin system", "validation features")
CORNERS, NEAR = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)), float(np.nextafter(1.0, 2.0))
BOX, DISK, POLYGON = Box(2, (0.0, 0.0), (1.0, 1.0)), Disk(2, (0.0, 0.0), 1.0), Polygon(2, CORNERS)
OWN = [
    UnitCube(1), UnitCube(2), UnitCube(3), Box(1, (0.0,), (1.0,)), BOX, replace(BOX, lower=(0.0, -1.0)),
    replace(BOX, upper=(1.0, NEAR)), replace(BOX, periodic=("x",)), replace(BOX, periodic=("y",)),
    replace(BOX, natural_faces=("x0",)), replace(BOX, natural_faces=("y1",)), DISK, replace(DISK, centre=(0.0, 1.0)),
    replace(DISK, radius=NEAR), replace(DISK, natural_faces=("circle",)), POLYGON, Polygon(2, CORNERS[:3]),
    replace(POLYGON, natural_faces=("side0",)), Mesh.from_triangles(CORNERS, [[0, 1, 2], [0, 2, 3]]),
    Mesh.from_triangles(CORNERS, [[0, 1, 3], [1, 2, 3]]),
    Mesh.from_triangles([*CORNERS[:3], (0.0, NEAR)], [[0, 1, 2], [0, 2, 3]]),
]  # fmt: skip
"""Domains that differ from another one in their type or in one parameter."""
DERIVED = {
    f"derived_{name}": make_dataclass(
        f"Derived{kind.__name__}", [("mark", str, field(default=""))], bases=(kind,), frozen=True
    )
    for name, kind in DOMAINS.items()
}


@pytest.fixture(autouse=True)
def _derived_kinds(monkeypatch):
    for name, kind in DERIVED.items():
        monkeypatch.setitem(DOMAINS.kinds, name, kind)


def parameters(domain):
    return {part.name: getattr(domain, part.name) for part in fields(domain)}


ALL = OWN + [
    kind(**parameters(next(each for each in OWN if type(each) is kind.__bases__[0])), mark=mark)
    for kind in DERIVED.values()
    for mark in ("", "a")
]


def test_keys_are_equal_if_type_and_parameters_are():
    stated = [pde.FormulaProblem(each.dimension, initial="0", source="1", domain=each) for each in ALL]
    assert len({hash_text(dump_canonical(describe_domain(each))) for each in ALL}) == len(ALL)
    assert len({hash_text(dump_canonical(ProblemSource.from_statement(each).content)) for each in stated}) == len(ALL)
    for one, other in itertools.combinations([list_stage_keys("problem", each, RUN) for each in ALL], 2):
        assert all(one[stage] != other[stage] for stage in ON_THE_DOMAIN)


@pytest.mark.parametrize("domain", ALL, ids=lambda domain: type(domain).__name__)
def test_a_domain_and_its_problem_are_made_again_from_their_content(domain):
    again = make_domain(json.loads(json.dumps(describe_domain(domain, whole=True))))
    content = json.loads(json.dumps(pde.FormulaProblem(domain.dimension, initial="0", domain=domain).content))
    for made in (again, pde.FormulaProblem(**content).domain):
        assert type(made) is type(domain)
        for name, value in parameters(domain).items():
            assert np.array_equal(np.asarray(getattr(made, name)), np.asarray(value))
        assert list_stage_keys("problem", made, RUN) == list_stage_keys("problem", domain, RUN)


def test_boundary_data_keep_a_derived_type_or_are_refused():
    domain = DERIVED["derived_box"](1, (0.0,), (2.0,), mark="a")
    given = {"initial": "0", "source": "1", "boundary": {"x1": {"flux": "1"}}}
    assert pde.FormulaProblem(1, domain=domain, **given).domain == replace(domain, natural_faces=("x1",))
    with pytest.raises(ParameterError, match="^`boundary` must be data of faces of a box, a disk or a polygon"):
        pde.FormulaProblem(1, domain=DERIVED["derived_unit_cube"](1), **given)


def test_a_type_that_is_not_registered_has_no_key(monkeypatch):
    @dataclass(frozen=True)
    class Other(UnitCube):
        pass

    message = r"^`domain` must be of a registered type, got .*Other\(dimension=1\).*. Add an entry point of the group"
    with pytest.raises(ParameterError, match=message):
        describe_domain(Other(1))
    problem = pde.FormulaProblem(1, exact="exp(-t)*sin(pi*x)", domain=Other(1))()
    monkeypatch.setattr("evogt_study.pde.single_run.solve_arrays", lambda *_, **__: pytest.fail("it was computed"))
    with pytest.raises(ParameterError, match=message):
        pde.solve(problem, Dictionary("sine", 4), 0, quadrature=4, final_time=0.1, dt=0.1)
