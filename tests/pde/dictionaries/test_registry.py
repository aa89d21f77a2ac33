"""Names and kinds: nothing stands for a name but the type that is registered for it."""

from dataclasses import dataclass

import numpy as np
import pytest
from helpers import cases

from evogt_study import pde
from evogt_study.errors import InputError, StudyError
from evogt_study.pde.dictionaries import FAMILIES
from evogt_study.pde.dictionaries.base import Dictionary, TensorProducts, by_total_degree
from evogt_study.study.study import Study

STUDY = """
name = "own_family"
[problem]
dimension = 1
exact = "exp(-t)*sin(pi*x)"
[axes]
dictionary = ["{family}", "transnet"]
N = [3, 6]
seed = [0, 1]
[constants]
gamma = 3
quadrature = 40
validation = 60
final_time = 0.02
dt = 0.01
"""


@pytest.fixture
def registered(monkeypatch):
    """Register a kind for the time of a test."""

    def register(name, kind):
        monkeypatch.setitem(FAMILIES.kinds, name, kind)

    return register


@dataclass(frozen=True)
class Monomials(Dictionary):
    """psi_k = x^k, all that a family has to say."""

    RANDOM = False

    def sample(self, seed, dimension):
        def powers(x, count, order):
            exponents = np.arange(count)
            tables = [x[:, None] ** exponents]
            for _ in range(order):
                tables.append(np.pad(tables[-1][:, :-1], ((0, 0), (1, 0))) * exponents)
            return np.stack(tables)

        return TensorProducts(by_total_degree(self.N, dimension), powers)


def test_a_family_is_a_class_and_a_name(registered):
    registered("monomials", Monomials)
    problem = pde.FormulaProblem(dimension=1, exact="exp(-t)*sin(pi*x)", diffusion="1/10")()
    one = pde.solve(problem, pde.Dictionary("monomials", 6), 0, quadrature=40, dt=0.01, final_time=0.02)
    assert float(one.error) < 1e-3
    found = {
        (case.values["dictionary"], case.values["N"], case.key) for case in cases(STUDY.format(family="monomials"))
    }
    assert len(found) == 2 + 4  # without a seed they are one run


@pytest.mark.parametrize(
    "use", [lambda: pde.Dictionary("half", 4), lambda: Study.from_text(STUDY.format(family="half"))]
)
def test_a_name_without_its_parts_is_an_error(registered, use):
    @dataclass(frozen=True)
    class Half(Dictionary):
        pass

    registered("half", Half)
    with pytest.raises(InputError, match="`dictionary` must be complete; `half` is without sample"):
        use()


@dataclass(frozen=True)
class Stepped(Monomials):
    tau: float = 1.0


@dataclass(frozen=True)
class Listed(Monomials):
    widths: list = None


class Undecorated(Monomials):
    shift: int = 0


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Stepped, "`tau` of Stepped must have another name, since the method has this parameter (study)"),
        (Listed, "`widths` of Listed must be of a type that a study can state, or declared by evogt_study.schema."),
        (Undecorated, "`Undecorated` must be a dataclass to have parameters. Add @dataclass(frozen=True) (study)"),
    ],
)
def test_a_mistake_in_a_class_is_one_line(registered, kind, message):
    registered("mistaken", kind)
    with pytest.raises(StudyError) as caught:
        Study.from_text(STUDY.format(family="mistaken"))
    assert str(caught.value).startswith(message)
