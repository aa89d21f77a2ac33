"""Keys distinguish domains by type and parameters: each registered type, and a type derived from each."""

import json
from dataclasses import dataclass, field, fields, make_dataclass, replace

import numpy as np
import pytest
from helpers import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evogt_study import pde
from evogt_study.errors import InputError, ParameterError
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.domains import DOMAINS, Box, Disk, Mesh, Polygon, UnitCube, domain_content, domain_from
from evogt_study.pde.methods.problem_method import ProblemSource
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, stage_keys
from evogt_study.schema.values import content_hash

RULE = QuadratureRule("gauss_legendre", 4)
RUN = Discretisation(Dictionary("sine", 4), 0, 1e-12, RULE, RULE, TimeGrid.of(0.1, 0.1))
ON_THE_DOMAIN = ("trial functions", "retained space", "nodal data", "Galerkin system", "validation features")

# a few values, so that equal domains and domains that differ in one parameter are drawn often
PLACE = st.sampled_from([0.0, 1.0, 3.0])
LENGTH = st.sampled_from([0.5, 1.0, float(np.nextafter(1.0, 2.0))])


@st.composite
def boxes(draw):
    """Boxes whose directions are periodic, or have natural or Dirichlet faces."""
    names = ("x", "y", "z")[: draw(st.integers(1, 3))]
    lower = tuple(draw(PLACE) for _ in names)
    kinds = [draw(st.sampled_from(["both", "periodic", "0", "1"])) for _ in names]
    given = list(zip(names, kinds, strict=True))
    periodic = tuple(name for name, kind in given if kind == "periodic")
    natural = tuple(name + kind for name, kind in given if kind in "01")
    return Box(len(names), lower, tuple(low + draw(LENGTH) for low in lower), periodic, natural)


@st.composite
def corners(draw):
    """The corners of a rectangle."""
    x, y, width, height = draw(PLACE), draw(PLACE), draw(LENGTH), draw(LENGTH)
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


KINDS = {
    "unit_cube": st.builds(UnitCube, st.integers(1, 3)),
    "box": boxes(),
    "disk": st.builds(lambda x, y, radius: Disk(2, (x, y), radius), PLACE, PLACE, LENGTH),
    "polygon": st.builds(lambda points, count: Polygon.of(points[:count]), corners(), st.integers(3, 4)),
    "mesh": st.builds(Mesh.of, corners(), st.sampled_from([[[0, 1, 2], [0, 2, 3]], [[0, 1, 3], [1, 2, 3]]])),
}
DERIVED = {
    f"derived_{name}": make_dataclass(
        f"Derived{kind.__name__}", [("mark", str, field(default=""))], bases=(kind,), frozen=True
    )
    for name, kind in DOMAINS.items()
}


def whole(domain):
    return {part.name: getattr(domain, part.name) for part in fields(domain)}


def drawn(name):
    """Domains of a kind; of a derived one with the parameters of its base, and one more."""
    if name not in DERIVED:
        return KINDS[name]
    base, marks = KINDS[name.removeprefix("derived_")], st.sampled_from(["", "a"])
    return st.builds(lambda domain, mark: DERIVED[name](**whole(domain), mark=mark), base, marks)


@st.composite
def neighbours(draw, name, domain):
    """The domain with one parameter of another one of its kind, if such a domain exists, else the other one."""
    other = draw(drawn(name))
    if isinstance(domain, Mesh):  # whose parameters are a digest and what it is a digest of
        return other
    part = draw(st.sampled_from(fields(domain))).name
    try:
        return replace(domain, **{part: getattr(other, part)})
    except InputError:
        return other


NAMES = [*DOMAINS.own, *DERIVED]


@pytest.fixture(scope="module", autouse=True)
def _derived_kinds():
    with pytest.MonkeyPatch.context() as patch:
        for name, kind in DERIVED.items():
            patch.setitem(DOMAINS.kinds, name, kind)
        yield


def same(one, other):
    """Type and parameters are equal, whatever the types say of equality."""
    if type(one) is not type(other):
        return False
    pairs = zip(whole(one).values(), whole(other).values(), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


def problem_on(domain):
    return pde.FormulaProblem(domain.dimension, initial="0", source="1", domain=domain)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_keys_are_equal_if_type_and_parameters_are(name, data):
    one = data.draw(drawn(name), "one")
    of_any_kind = st.sampled_from(NAMES).flatmap(drawn)
    other = data.draw(st.one_of(drawn(name), neighbours(name, one), of_any_kind), "other")
    equal = same(one, other)
    contents, problems = [[make(each) for each in (one, other)] for make in (domain_content, problem_on)]
    assert (content_hash(contents[0]) == content_hash(contents[1])) == equal
    of_run = [content_hash(ProblemSource.of(problem).content) for problem in problems]
    assert (of_run[0] == of_run[1]) == equal
    stages = [stage_keys("problem", domain, RUN) for domain in (one, other)]
    assert [stage for stage in ON_THE_DOMAIN if (stages[0][stage] == stages[1][stage]) != equal] == []


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_a_domain_and_its_problem_are_made_again_from_their_content(name, data):
    domain = data.draw(drawn(name))
    again = domain_from(json.loads(json.dumps(domain_content(domain, whole=True))))
    assert same(again, domain)
    problem = problem_on(domain)
    stated = json.loads(json.dumps(problem.content))
    assert same(pde.FormulaProblem(**stated).domain, domain)


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
        domain_content(Other(1))
    problem = pde.FormulaProblem(1, exact="exp(-t)*sin(pi*x)", domain=Other(1))()
    monkeypatch.setattr("evogt_study.pde.single_run.solve_arrays", lambda *_, **__: pytest.fail("it was computed"))
    with pytest.raises(ParameterError, match=message):
        pde.solve(problem, Dictionary("sine", 4), 0, quadrature=4, final_time=0.1, dt=0.1)
