"""The contract of a method: what it must have, and that everything else may be left out."""

from dataclasses import dataclass

import numpy as np
import pytest

from evogt_study.methods.protocol import BoundCase, Method
from evogt_study.operations.forecast import predicted
from evogt_study.pde.pipeline import afresh
from evogt_study.schema.fields import declared_in
from evogt_study.schema.parameters import Parameter, anything, declared, integer, real, typed
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import canonical_json, json_object, json_text, text_hash
from evogt_study.study import plan as plan_module
from evogt_study.study.case_space import Axis, CaseSpace
from evogt_study.study.plan import Plan, peak_memory, shared_work


class LeastCase(BoundCase):
    def __init__(self, values):
        self.values = values

    @property
    def content(self):
        return canonical_json(self.values)

    def run(self, share):
        return Record({"double": Datum((), np.asarray(2 * self.values["i"]))}, {})


class LeastMethod(Method):
    def __init__(self):
        self.parameters = {"i": Parameter("i", "a number", anything)}

    def bind(self, values):
        return LeastCase(values)


def test_a_method_must_have_four_members_at_most():
    assert BoundCase.__abstractmethods__ == {"content", "run"}
    assert Method.__abstractmethods__ == {"bind"}
    assert Method.__annotations__.keys() == {"parameters", "variables", "keywords"}
    assert not Method.variables
    assert not Method.keywords


def test_a_method_without_hints_is_planned_and_run(monkeypatch):
    monkeypatch.setattr(plan_module, "load_method", lambda spec: LeastMethod())
    plan = Plan("main", None, CaseSpace((Axis("i", (3, 1, 2)),), {}))
    cases = list(plan.cases())
    assert [case.key for case in cases] == [text_hash(canonical_json({"i": i})) for i in (3, 1, 2)]
    assert [int(plan.method.bind(case.values).run(afresh).variables["double"].values) for case in cases] == [6, 2, 4]
    assert (plan.work, plan.longest, plan.group, peak_memory(plan)) == (None, 0.0, 1, 0.0)
    assert predicted(plan, shared_work(plan)) is None
    assert plan.method.required({}) == ("i",)


def test_a_field_is_the_one_declaration_of_a_parameter():
    @dataclass(frozen=True, kw_only=True)
    class Parameters:
        points: int = declared("an integer >= 1", integer(1), "points")
        ridge: float = declared("a number", real(), default=0.5)
        word: str | None = declared("a word", anything, optional=True)

    known = declared_in(Parameters)
    assert {name: (part.name, part.default, part.optional) for name, part in known.items()} == {
        "points": ("points", None, False), "ridge": ("ridge", 0.5, False), "word": ("word", None, True),
    }  # fmt: skip
    assert typed(Parameters, {"points": 3, "other": 1}) == Parameters(points=3, ridge=0.5, word=None)
    with pytest.raises(TypeError, match="points"):
        typed(Parameters, {})


@pytest.mark.parametrize("value", [1, -3, 0.1, 1e-12, 2.0, True, "a", 'é"', (1, 2.5), 10**18, 1e300])
def test_json_made_of_texts_is_canonical(value):
    assert json_text(value) == canonical_json(value)
    for content in ({"b": value, "a": 1}, {"ε": value, "a": value}):
        assert json_object({name: json_text(each) for name, each in content.items()}) == canonical_json(content)
