"""The content of functions in memory: lambdas, partials, methods of objects, and the values that they use."""

import functools
import sys
import textwrap
import types

import numpy as np
import pandas as pd
import pytest

from evogt_study.methods.fingerprint import Content, is_local


def content(function):
    return Content().hash(function)


def cell(source, **names):
    """A function `f` of a notebook's cell: its names are those of `__main__`, and it is in no file."""
    module = types.ModuleType("__main__")
    vars(module).update(names)
    exec(compile(textwrap.dedent(source), "<cell>", "exec"), vars(module))
    return module.f


USES = "def f(seed):\n    return helper(seed) + RATE\ndef helper(x):\n    return 2 * x\n"
VALUES = {
    "a number": (1.0, 1.5), "a type of number": (1, 1.0), "an array": (np.arange(3), np.arange(1, 4)),
    "a type of array": (np.arange(3), np.arange(3.0)), "a list": ([1, 2], [2, 1]), "a tuple": ((1,), [1]),
    "a dict": ({"a": 1}, {"a": 2}), "a set": ({1, 2}, {1, 3}),
    "a frame": (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]})),
    "a generator": (np.random.default_rng(0), np.random.default_rng(1)), "None": (None, 0),
    "a partial": (functools.partial(min, 1), functools.partial(min, 2)), "a module": (np, pd),
    "a lambda": (lambda x: x, lambda x: x + 1), "a text": ("a", "b"), "objects in an array": (
        np.array([1, "a"], dtype=object), np.array([1, "b"], dtype=object)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_that_a_function_uses_count(name):
    one, other = VALUES[name]
    assert content(cell(USES, RATE=one)) == content(cell(USES, RATE=one))
    assert content(cell(USES, RATE=one)) != content(cell(USES, RATE=other))


def test_layout_and_other_functions_do_not_count():
    changed = "# a comment\n\n\n" + USES.replace("    return helper", '    """Text."""\n    return helper')
    assert content(cell(changed, RATE=1, unused=3)) == content(cell(USES, RATE=1))
    assert content(cell(USES.replace("2 * x", "3 * x"), RATE=1)) != content(cell(USES, RATE=1))


CACHED = """
import functools
def f(seed):
    return helper(seed)
@functools.lru_cache
def helper(x):
    return x + RATE
"""


def test_what_is_behind_a_cache_counts():
    assert content(cell(CACHED, RATE=1)) == content(cell(CACHED, RATE=1))
    others = [cell(CACHED, RATE=2), cell(CACHED.replace("x +", "x -"), RATE=1)]
    others.append(cell(CACHED.replace("lru_cache", "lru_cache(maxsize=2)"), RATE=1))
    assert len({content(each) for each in (cell(CACHED, RATE=1), *others)}) == 4
    cached = cell(CACHED.replace("@functools.lru_cache\n", "").replace("def f", "@functools.cache\ndef f"), RATE=1)
    assert content(cached) != content(cached.__wrapped__)


TRY = """
def f(x):
    try:
        try:
            y = first(x)
            z = second(y)
        except ZeroDivisionError:
            z = -1.0
    except ZeroDivisionError:
        z = -2.0
    return z
"""


def test_what_a_try_covers_counts():
    moved = TRY.replace("            z = second(y)\n", "").replace(
        "            z = -1.0\n", "            z = -1.0\n        else:\n            z = second(y)\n"
    )
    names = {"first": abs, "second": abs}
    assert content(cell(TRY, **names)) == content(cell(TRY, **names))
    assert content(cell(TRY, **names)) != content(cell(moved, **names))


DATACLASS = """
import dataclasses, functools
@dataclasses.dataclass
class Result:
    height: float
    width: float = 1.0
    @functools.cached_property
    def area(self):
        return self.height * self.width
def f(seed):
    return Result(seed)
"""


def test_a_dataclass_counts_by_its_fields_and_members():
    others = [DATACLASS.replace("width: float = 1.0", "width: float = 2.0"), DATACLASS.replace("* self", "+ self")]
    assert content(cell(DATACLASS)) == content(cell(DATACLASS))
    assert len({content(cell(each)) for each in (DATACLASS, *others)}) == 3


def test_docstrings_do_not_hide_text_that_is_returned():
    assert content(cell("def f():\n    return 'a'")) != content(cell("def f():\n    return 'b'"))


CLASS = """
class Model:
    scale = 2
    def __init__(self, rate):
        self.rate = rate
    def run(self, seed):
        return self.other(seed) * self.rate
    def other(self, seed):
        return seed * self.scale
f = Model(RATE).run
"""


def test_methods_of_objects_count_with_their_object_and_class():
    assert content(cell(CLASS, RATE=1)) == content(cell(CLASS, RATE=1))
    assert content(cell(CLASS, RATE=1)) != content(cell(CLASS, RATE=2))
    assert content(cell(CLASS, RATE=1)) != content(cell(CLASS.replace("scale = 2", "scale = 3"), RATE=1))
    assert content(cell(CLASS, RATE=1)) != content(cell(CLASS.replace("seed * self", "seed + self"), RATE=1))


def test_recursion_and_cycles_end():
    assert content(cell("def f(n):\n    return n and f(n - 1)")) == content(
        cell("def f(n):\n    return n and f(n - 1)")
    )
    cycle = [1]
    cycle.append(cycle)
    assert content(cell("def f():\n    return RATE", RATE=cycle))


def test_enclosed_variables_count():
    source = "def make(a):\n    return lambda seed: seed + a\nf = make({})"
    assert content(cell(source.format(1))) != content(cell(source.format(2)))


def test_what_is_installed_counts_by_name():
    assert not any(map(is_local, (np, sys, sys.modules["evogt_study"])))
    assert is_local(sys.modules[__name__])
