"""A function that captures a random generator is refused by name, and no other function is."""

import functools
import random
import re
import types

import numpy as np
import pytest
from helpers import read_table

import evogt_study as evs
from evogt_study.errors import StudyError
from evogt_study.methods.code import check_generators

IMPORTS = "import functools, random\nimport numpy as np\nimport scipy.stats\n"
TABLE = read_table(__file__)
CASES = [(kind, name) for kind in TABLE for name in TABLE[kind]]


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
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_captured_generator_is_refused_by_name_and_nothing_else_is(study_of, kind, name, way):
    source, variable = TABLE[kind][name]["source"], TABLE[kind][name].get("variable", "")
    if kind == "captured":
        with pytest.raises(StudyError, match=rf"^`{re.escape(variable)}.*`rng`") as caught:
            study_of(source, way)
        assert "holds a random generator, whose draws every worker would repeat" in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
    elif (name, way) != ("a generator without a state", "object"):  # it cannot be pickled
        assert len(study_of(source, way)) == 2


def test_a_generator_of_a_helper_module_is_refused_if_it_is_used(tmp_path, study_of):
    (tmp_path / "toy_draws.py").write_text("import random\nrng = random.Random(1)\ntable = [1, 2]\n")
    with pytest.raises(StudyError, match="`toy_draws.rng` of .* holds a random generator"):
        study_of("import toy_draws\ndef f(seed):\n    return toy_draws.rng.random()\n", "file")
    assert study_of("import toy_draws\ndef f(seed):\n    return toy_draws.table[seed]\n", "file")


def test_a_lambda_and_a_partial_of_a_cell():
    module = types.ModuleType("__main__")
    vars(module).update(rng=np.random.default_rng(0), unused=random.Random())
    for source in ("lambda seed: rng.normal()", "lambda seed: [rng for _ in range(2)]"):
        with pytest.raises(StudyError, match="`rng` of f"):
            check_generators(eval(source, vars(module)), "f")
    check_generators(functools.partial(eval("lambda seed, a: a", vars(module)), a=np.ones(2)), "f")
    with pytest.raises(StudyError, match="`f` holds"):
        check_generators(functools.partial(max, np.random.PCG64(0)), "f")
