"""A function has one fingerprint and one key, however a study names it and on every supported version of Python."""

import importlib
import linecache
import sys
import types

import pytest
from helpers import promised

import evogt_study as evs
from evogt_study.study.plan import study_plan

# each source has a function `f`; its fingerprint was computed with Python 3.11, 3.12 and 3.13
FUNCTIONS = {
    "a function": ("def f(seed, rate=2.0):\n    return rate * seed\n", "fcafcff83e54bf73"),
    "comments and a docstring": (
        '"""A file."""\n\n\ndef f(seed, rate=2.0):\n    """Text."""\n    # a comment\n'
        "    return (rate\n            * seed)\n",
        "fcafcff83e54bf73",
    ),
    "a helper and a constant": (
        "RATE = 0.1\nUNUSED = 3\ndef g(x):\n    return RATE * x\ndef f(seed):\n    return g(seed)\n",
        "73c171f80578193e",
    ),
    "an import": ("import numpy as np\ndef f(seed):\n    return np.exp(seed)\n", "fab44d01325ec9c5"),
    "a try": (
        "def f(seed):\n    try:\n        return 1 / seed\n    except ZeroDivisionError:\n        return -1.0\n",
        "252067aa11b0315b",
    ),
    "a comprehension": (
        "def f(seed):\n    return {'v': 'a' 'b'.join([f'{n!r:>3}' for n in range(seed) if n])}\n", "d9b8ac14338c4d0e"
    ),
    "a nested format": ("def f(seed):\n    return f'{seed:>{seed}}'\n", "f8b0c567315c3b9c"),
    "a match": (
        "def f(seed):\n    match seed:\n        case 0 | 1:\n            return 0\n        case _:\n"
        "            return (s := seed)\n",
        "7aa70e302db38038",
    ),
    "a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: float = 1.0\n    def y(self):\n"
        "        return 2 * self.x\ndef f(seed):\n    return P(seed).y()\n",
        "a0e3cff8baefd62d",
    ),
    "a cache": (
        "import functools\n@functools.lru_cache(maxsize=8)\ndef g(x):\n    return x + 1\n"
        "def f(seed):\n    return g(seed)\n",
        "21b8573452825c84",
    ),
    "a lambda": ("g = lambda x, y=2: x**y\nf = lambda seed: g(seed)\n", "e0d3287c0b91475c"),
}  # fmt: skip
ONE = "a function has one fingerprint, of source text, whether it is an object or named in its file"
TODAY = {"object": ONE, "notebook": ONE}
SEEDS = {"seed": [0, 1, 2]}


def in_a_cell(source):
    """The function `f` of a notebook's cell, whose source is known as in IPython."""
    module, name = types.ModuleType("__main__"), "<cell of a test>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    exec(compile(source, name, "exec"), vars(module))
    return module.f


WAYS = {
    "file": lambda name, source: f"{name}.py:f",
    "module": lambda name, source: f"{name}:f",
    "object": lambda name, source: importlib.import_module(name).f,
    "notebook": lambda name, source: in_a_cell(source),
}


@pytest.fixture
def study_of(tmp_path, monkeypatch):
    """A study of a function, whose source is in a file of the present folder, named in one of `WAYS`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def make(source, way):
        name = f"toy_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(source)
        return evs.Study(WAYS[way](name, source), axes=SEEDS, name="toy")

    return make


@pytest.mark.parametrize("way", promised(WAYS, TODAY))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_one_fingerprint_and_one_key(study_of, request, name, way):
    if name == "a nested format" and (3, 12) <= sys.version_info < (3, 13):
        request.applymarker(pytest.mark.xfail(strict=True, reason="fingerprints are those of other versions of Python"))
    source, fingerprint = FUNCTIONS[name]
    study, by_file = study_of(source, way), study_of(source, "file")
    assert study.spec.method.content[:16] == fingerprint
    assert study_plan(study).keys.tolist() == study_plan(by_file).keys.tolist()


@pytest.mark.parametrize("way", promised(["file", "module", "object"], TODAY))
def test_a_study_that_is_written_to_a_file_computes_nothing_again(study_of, tmp_path, way):
    study, path, done = study_of("def f(seed):\n    return 2.0 * seed\n", way), tmp_path / "toy.nc", []
    evs.run(study, output=path, workers=1)
    evs.run(evs.Study.from_file(study.to_file(tmp_path / "toy.toml")), output=path, workers=1, listener=done.append)
    assert max(event.done for event in done) == 0
