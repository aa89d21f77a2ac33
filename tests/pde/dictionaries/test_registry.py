"""Mistakes in the class of a dictionary get one line; a right one is in `tests/other_package`."""

from dataclasses import dataclass

import pytest
from helpers import study_text

from evogt_study.errors import InputError
from evogt_study.pde.dictionaries import FAMILIES
from evogt_study.pde.dictionaries.base import Dictionary
from evogt_study.pde.dictionaries.tensor_dictionaries import Sine
from evogt_study.study.study import Study


@dataclass(frozen=True)
class Half(Dictionary):
    pass


@dataclass(frozen=True)
class Stepped(Sine):
    tau: float = 1.0


@dataclass(frozen=True)
class Listed(Sine):
    widths: list = None


class Undecorated(Sine):
    shift: int = 0


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Half, "`dictionary` must be complete; `mistaken` is without sample"),
        (Stepped, "`tau` of Stepped must have another name, because the method has this parameter (study)"),
        (Listed, "`widths` of Listed must be of a type that a study can state, or declared by evogt_study.schema."),
        (Undecorated, "`Undecorated` must be a dataclass to have parameters. Add @dataclass(frozen=True) (study)"),
    ],
)
def test_a_mistake_in_a_class_is_one_line(kind, message, monkeypatch):
    monkeypatch.setitem(FAMILIES.kinds, "mistaken", kind)
    constants = {"quadrature": 40, "validation": 60, "final_time": 0.02, "dt": 0.01}
    problem = {"dimension": 1, "exact": "exp(-t)*sin(pi*x)"}
    with pytest.raises(InputError) as caught:
        Study.from_text(study_text(problem, constants, {"dictionary": ["mistaken", "sine"], "N": [3], "seed": [0]}))
    assert str(caught.value).startswith(message)
