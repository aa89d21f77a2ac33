"""A function that captures a random generator is refused by name, and no other function is."""

import functools
import random
import re
import types

import numpy as np
import pytest

import evogt_study as evs
from evogt_study.errors import StudyError
from evogt_study.methods.streams import check_generators

IMPORTS = "import functools, random\nimport numpy as np\nimport scipy.stats\n"
CAPTURED = {
    "a global": ("_rng = np.random.default_rng(0)\ndef f(seed):\n    return _rng.normal()\n", "_rng"),
    "a global of a helper": (
        "r = random.Random(1)\ndef g():\n    return r.random()\ndef f(seed):\n    return g()\n"
        "", "r"
    ),
    "a global in a list": ("many = [np.random.RandomState(1)]\ndef f(seed):\n    return many[0].rand()\n", "many[0]"),
    "a global in a mapping": (
        "known = {'a': [1, np.random.SeedSequence(3)]}\ndef f(seed):\n    return known['a'][1].entropy\n"
        "", "known['a'][1]"
    ),
    "a bit generator": ("bits = np.random.PCG64(1)\ndef f(seed):\n    return bits.random_raw()\n", "bits"),
    "a default": ("def f(seed, rng=np.random.default_rng(0)):\n    return rng.normal()\n", "rng"),
    "a keyword default": ("def f(seed, *, rng=random.Random(0)):\n    return rng.random()\n", "rng"),
    "a closure": (
        "def make(generator):\n    return lambda seed: generator.normal()\nf = make(np.random.default_rng(0))\n",
        "generator",
    ),
    "a partial": (
        "def g(seed, rng):\n    return rng.normal()\nf = functools.partial(g, rng=np.random.default_rng(0))\n", "rng"
    ),
    "an attribute": (
        "class Model:\n    def __init__(self):\n        self.rng = np.random.default_rng(0)\n"
        "    def run(self, seed):\n        return self.rng.normal()\nf = Model().run\n",
        "rng",
    ),
    "an attribute of a global": (
        "class Model:\n    def __init__(self):\n        self.rng = np.random.default_rng(0)\nmodel = Model()\n"
        "def f(seed):\n    return model.rng.normal()\n",
        "model.rng",
    ),
    "an attribute of a class": (
        "class Model:\n    rng = np.random.default_rng(0)\ndef f(seed):\n    return Model.rng.normal()\n", "Model.rng"
    ),
    "a slot": (
        "class Model:\n    __slots__ = ('rng',)\n    def __init__(self):\n        self.rng = random.Random(0)\n"
        "model = Model()\ndef f(seed):\n    return model.rng.random()\n",
        "model.rng",
    ),
    "a method of a generator": ("draw = np.random.default_rng(0).normal\ndef f(seed):\n    return draw()\n", "draw"),
    "a cached function": (
        "rng = np.random.default_rng(0)\n@functools.cache\ndef g(x):\n    return rng.normal()\ndef f(seed):\n"
        "    return g(seed)\n",
        "rng",
    ),
    "a frozen distribution": (
        "d = scipy.stats.norm(0, 1)\nd.random_state = np.random.default_rng(0)\ndef f(seed):\n"
        "    return d.rvs()\n", "d."
    ),
    "an object array": (
        "a = np.array([np.random.default_rng(0), None], dtype=object)\ndef f(seed):\n    return a[0].normal()\n", "a"
    ),
}  # fmt: skip
ALLOWED = {
    "inside the function": "def f(seed):\n    return np.random.default_rng(seed).normal()\n",
    "a constant array": (
        "_rng = np.random.default_rng(0)\nW = _rng.normal(size=3)\ndef f(seed):\n    return W.sum() + seed\n"
        ""
    ),
    "a seeded distribution": "d = scipy.stats.norm(0, 1)\ndef f(seed):\n    return d.rvs(random_state=seed)\n",
    "a distribution": "from scipy.stats import norm\ndef f(seed):\n    return norm.rvs(random_state=seed)\n",
    "another function's": "r = random.Random(1)\ndef g():\n    return r.random()\ndef f(seed):\n    return seed\n",
    "modules": (
        "from numpy import random as nr\ndef f(seed):\n"
        "    return np.random.normal() + nr.rand() + random.random()\n"
    ),
    "functions of modules": (
        "from random import gauss\nfrom numpy.random import rand\ndef f(seed):\n"
        "    return gauss() + rand()\n"
    ),
    "a generator without a state": "s = random.SystemRandom()\ndef f(seed):\n    return s.random()\n",
    "the name of an attribute": (
        "rng = random.Random(1)\nclass M:\n    rng = 2\ndef f(seed):\n    return M.rng * seed\n"
        ""
    ),
    "a cached property": (
        "class M:\n    @functools.cached_property\n    def n(self):\n        return 3\n    @property\n"
        "    def bad(self):\n"
        "        raise RuntimeError\nm = M()\ndef f(seed):\n    return m.n * seed\n"
    ),
    "a class of generators": "G = np.random.Generator\ndef f(seed):\n    return isinstance(seed, G)\n",
    "what contains itself": "a = []\na.append(a)\ndef f(seed):\n    return len(a) + seed\n",
}  # fmt: skip


@pytest.fixture
def study_of(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def make(source, way):
        name = f"drawn_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(IMPORTS + source)
        method = f"{tmp_path / name}.py:f" if way == "file" else f"{name}:f"
        return evs.Study(__import__(name).f if way == "object" else method, axes={"seed": [0, 1]}, name="drawn")

    return make


@pytest.mark.parametrize("way", ["file", "module", "object"])
@pytest.mark.parametrize("name", [*CAPTURED, *ALLOWED])
def test_a_captured_generator_is_refused_by_name_and_nothing_else_is(study_of, name, way):
    if name in CAPTURED:
        source, variable = CAPTURED[name]
        with pytest.raises(StudyError, match=rf"^`{re.escape(variable)}.*`rng`") as caught:
            study_of(source, way)
        assert "is a random generator, whose draws every worker would repeat" in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
    elif (name, way) != ("a generator without a state", "object"):  # it cannot be pickled
        assert len(study_of(ALLOWED[name], way)) == 2


def test_a_generator_of_a_helper_module_is_refused_if_it_is_used(tmp_path, study_of):
    (tmp_path / "toy_draws.py").write_text("import random\nrng = random.Random(1)\ntable = [1, 2]\n")
    with pytest.raises(StudyError, match="`toy_draws.rng` of .* is a random generator"):
        study_of("import toy_draws\ndef f(seed):\n    return toy_draws.rng.random()\n", "file")
    assert study_of("import toy_draws\ndef f(seed):\n    return toy_draws.table[seed]\n", "file")


def test_a_lambda_and_a_partial_of_a_cell():
    module = types.ModuleType("__main__")
    vars(module).update(rng=np.random.default_rng(0), unused=random.Random())
    for source in ("lambda seed: rng.normal()", "lambda seed: [rng for _ in range(2)]"):
        with pytest.raises(StudyError, match="`rng` of f"):
            check_generators(eval(source, vars(module)), "f")
    check_generators(functools.partial(eval("lambda seed, a: a", vars(module)), a=np.ones(2)), "f")
    with pytest.raises(StudyError, match="`argument 1` of f"):
        check_generators(functools.partial(max, np.random.PCG64(0)), "f")
