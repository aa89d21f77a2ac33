"""The contract of a method: what it must have, and that everything else may be left out."""

import hashlib

import numpy as np

from evogt_study.methods.protocol import BoundCase, Method
from evogt_study.schema.parameters import Parameter, read_anything
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import dump_canonical
from evogt_study.study.case_space import Axis, CaseSpace
from evogt_study.study.plan import compute_run_keys


class LeastCase(BoundCase):
    def __init__(self, values):
        self.values = values

    @property
    def setup(self):
        return dump_canonical({"i": self.values["i"]})

    def run(self, share):
        return Record({"double": Datum((), np.asarray(2 * self.values["i"]))}, {})


class LeastMethod(Method):
    def __init__(self):
        self.parameters = {"i": Parameter("i", "a number", read_anything)}

    def bind(self, values):
        return LeastCase(values)


class SeededCase(LeastCase):
    key_only_values = property(lambda self: {name: self.values[name] for name in ("seed", "j")})
    defaults = property(lambda self: {"j": 2})


class SeededMethod(LeastMethod):
    key_only_parameters = ("j", "seed")

    def __init__(self):
        self.parameters = {name: Parameter(name, "a number", read_anything) for name in ("i", "j", "seed")}

    def bind(self, values):
        return SeededCase(values)


def digits(text):
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def test_a_method_must_have_four_members_at_most():
    assert BoundCase.__abstractmethods__ == {"setup", "run"}
    assert Method.__abstractmethods__ == {"bind"}
    assert (Method.variables, Method.keywords, Method.stage_parameters) == ({}, (), None)
    assert Method.key_only_parameters == ()
    assert LeastMethod().setup_parameters == ("i",)


def test_a_key_is_the_hash_of_the_hash_of_the_setup_and_of_plain_values_that_are_not_the_default():
    setup = digits('{"i":1}')
    assert SeededCase({"i": 1, "j": 3, "seed": 5}).key == digits(f'{setup}"j":3;"seed":5;')
    assert SeededCase({"i": 1, "j": 2, "seed": 5}).key == digits(f'{setup}"seed":5;')
    assert SeededCase({"i": 1, "j": 2.0, "seed": True}).key == digits(f'{setup}"j":2.0;"seed":true;')
    assert LeastCase({"i": 1}).key == digits(setup)


def test_a_plan_binds_each_setup_once(monkeypatch):
    bound, bind = [], SeededMethod.bind
    monkeypatch.setattr(SeededMethod, "bind", lambda self, values: bound.append(values) or bind(self, values))
    space = CaseSpace((Axis("seed", tuple(range(50))), Axis("i", (3, 1, 2)), Axis("j", (1, 2))), {})
    keys = compute_run_keys(SeededMethod(), space)
    assert [values["i"] for values in bound] == [3, 1, 2]
    assert keys.astype(str).tolist() == [SeededCase(space.values(number)).key for number in range(space.size)]
