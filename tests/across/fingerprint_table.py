"""Fingerprints of functions, computed with Python 3.11, 3.12 and 3.13.

    python tests/across/fingerprint_table.py

prints each fingerprint that differs, in each way to name a function.  It needs the package and NumPy only.
The option --write stores the fingerprints of today in this file.
"""

import importlib
import linecache
import sys
import tempfile
import types
import warnings
from pathlib import Path

from evogt_study.methods.fingerprint import file_fingerprint, object_fingerprint

HELPER = "SCALE = 3\ndef shift(x):\n    return x + SCALE\ndef unused():\n    return 1\n"
"""The file toy_helper.py beside each function."""
FUNCTIONS = {
    "a function": "def f(seed, rate=2.0):\n    return rate * seed\n",
    "comments and a docstring": (
        '"""A file."""\n\n\ndef f(seed, rate=2.0):\n    """Text."""\n    # a comment\n'
        "    return (rate\n            * seed)\n"
    ),
    "a helper and a constant": (
        "RATE = 0.1\nUNUSED = 3\ndef g(x):\n    return RATE * x\ndef f(seed):\n    return g(seed)\n"
    ),
    "an import": "import numpy as np\ndef f(seed):\n    return np.exp(seed)\n",
    "an import of a name": "from math import exp as e, pi\ndef f(seed):\n    return e(seed) * pi\n",
    "a helper file": "import toy_helper\ndef f(seed):\n    return toy_helper.shift(seed)\n",
    "a name of a helper file": "from toy_helper import shift as s\ndef f(seed):\n    return s(seed)\n",
    "all of a helper file": "from toy_helper import *\ndef f(seed):\n    return shift(seed)\n",
    "an import in a function": "def f(seed):\n    from toy_helper import shift\n    return shift(seed)\n",
    "a try": "def f(seed):\n    try:\n        return 1 / seed\n    except ZeroDivisionError:\n        return -1.0\n",
    "an exception with a name": (
        "def f(seed):\n    try:\n        return 1 / seed\n    except (ValueError, OSError) as error:\n"
        "        raise RuntimeError from error\n    finally:\n        del seed\n"
    ),
    "a comprehension": "def f(seed):\n    return {'v': 'a' 'b'.join([f'{n!r:>3}' for n in range(seed) if n])}\n",
    "comprehensions": (
        "A = [1, 2]\ndef f(seed):\n    k = {n: [m for m in A if m > n] for n in A}\n"
        "    return sum(x for x in {a for a in A}) + len(k) + seed\n"
    ),
    "a nested format": "def f(seed):\n    return f'{seed:>{seed}}'\n",
    "formats": "def f(seed, w=3):\n    return f'a{seed!r:{w}.{w}f}b{{}}{seed=}' f'{w}' 'c' f''\n",
    "a match": (
        "def f(seed):\n    match seed:\n        case 0 | 1:\n            return 0\n        case _:\n"
        "            return (s := seed)\n"
    ),
    "a match of shapes": (
        "LIMIT = 3\nclass P:\n    x = 1\ndef f(seed):\n    match seed:\n        case {'a': a, **rest}:\n"
        "            return a, rest\n        case [1, *others] if LIMIT:\n            return others\n"
        "        case P(x=1) as p:\n            return p\n        case None | True:\n            return 1\n"
    ),
    "a walrus": "def f(seed):\n    return [y for n in range(seed) if (y := n**2) > 2] and y\n",
    "async": (
        "import asyncio\nasync def g(x):\n    async for y in x:\n        await y\n    return [z async for z in x]\n"
        "def f(seed):\n    return asyncio.run(g(seed))\n"
    ),
    "a generator function": "def g(n):\n    yield from range(n)\ndef f(seed):\n    return [*g(seed)]\n",
    "a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: float = 1.0\n    def y(self):\n"
        "        return 2 * self.x\ndef f(seed):\n    return P(seed).y()\n"
    ),
    "classes": (
        "class A:\n    scale: int = 2\n    @property\n    def s(self):\n        return self.scale\n    @staticmethod\n"
        "    def t(x):\n        return x\nclass B(A):\n    def run(self, seed):\n"
        "        return super().s * self.t(seed)\n"
        "def f(seed):\n    return B().run(seed)\n"
    ),
    "an enumeration": (
        "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\ndef f(seed):\n    return E.A.value * seed\n"
        ""
    ),
    "a cache": (
        "import functools\n@functools.lru_cache(maxsize=8)\ndef g(x):\n    return x + 1\n"
        "def f(seed):\n    return g(seed)\n"
    ),
    "a decorator": (
        "import functools\ndef twice(function):\n    @functools.wraps(function)\n    def inner(*args):\n"
        "        return 2 * function(*args)\n    return inner\n@twice\ndef g(x):\n    return x\n"
        "def f(seed):\n    return g(seed)\n"
    ),
    "a decorated function": (
        "import functools\ndef twice(function):\n    @functools.wraps(function)\n    def inner(*args, **kwargs):\n"
        "        return 2 * function(*args, **kwargs)\n    return inner\n@twice\ndef f(seed):\n    return seed\n"
    ),
    "a lambda": "g = lambda x, y=2: x**y\nf = lambda seed: g(seed)\n",
    "a closure": "def make(a):\n    def inner(seed):\n        return a * seed\n    return inner\nf = make(2)\n",
    "a partial": (
        "import functools\ndef g(seed, a, b):\n    return a * seed + b\n"
        "f = functools.partial(g, a=2, b=1.5)\n"
    ),
    "a method of an object": (
        "class Model:\n    def __init__(self, rate):\n        self.rate = rate\n    def run(self, seed):\n"
        "        return self.rate * seed\nf = Model(5).run\n"
    ),
    "constants": (
        "A, B = 1, -2.5\nC = D = 1e-3\nE: int = 0x10\nG = (1,)\nH = {'a': [1, None], 2: ...}\nI = {3, 1, 2}\n"
        "J = b'x'\nK = 2 * A + 0.5\nL = list(range(3))\ndef f(seed):\n    return A, B, C, D, E, G, H, I, J, K, L\n"
    ),
    "arrays and scalars": (
        "import numpy as np\nA = np.array([1.0, 2.0])\nB = np.float32(0.1)\nC = np.linspace(0, 1, 5) * np.pi\n"
        "D = {'a': np.arange(3)}\ndef f(seed):\n    return A, B, C, D\n"
    ),
    "a conditional definition": (
        "import sys\nif sys.maxsize > 1:\n    def g(x):\n        return x\nelse:\n    g = abs\ndef f(seed):\n"
        "    return g(seed)\n"
    ),
    "globals that are set": (
        "COUNT = 0\ndef count():\n    global COUNT\n    COUNT += 1\n    return COUNT\ndef f(seed):\n"
        "    return count()\n"
    ),
    "keyword-only and positional-only": "K = 3\ndef f(seed, /, a=K, *args, b=None, c=(1, 2), **kw):\n    return seed\n",
    "a star expression": "def f(seed):\n    a, *b = [seed, *range(3)]\n    return {**{'a': a}, 'b': b[1:-1:2]}\n",
    "recursion": "def f(seed):\n    return seed and f(seed - 1)\n",
}  # fmt: skip
FINGERPRINTS = {
    "a function": "394cd68398b57a6b",
    "comments and a docstring": "394cd68398b57a6b",
    "a helper and a constant": "4bf5869e6edf5284",
    "an import": "14a51b764f57af13",
    "an import of a name": "53cba25158b85f33",
    "a helper file": "152d88d2133ddf40",
    "a name of a helper file": "0a314ae26f6b6ffc",
    "all of a helper file": "37bbc1994df5daef",
    "an import in a function": "b39691ad6fef358f",
    "a try": "10629264c5bf5313",
    "an exception with a name": "73fbbe4741a4dc98",
    "a comprehension": "c64cd4693c962306",
    "comprehensions": "bc52ffe12de0120e",
    "a nested format": "03f7f49ea7553229",
    "formats": "56e1149d05b60457",
    "a match": "9b8050a48038a6a2",
    "a match of shapes": "0373c79229d1a471",
    "a walrus": "4921e03f628e75cc",
    "async": "f07fba94228fdd70",
    "a generator function": "9e200585842694e8",
    "a dataclass": "7370a5524b40aa7d",
    "classes": "8099f745c198e6a4",
    "an enumeration": "6f39bcdc894e7bca",
    "a cache": "1cc5954aadc72d84",
    "a decorator": "de75086591020a5e",
    "a decorated function": "a3f32fb8ef7e1dd3",
    "a lambda": "e25e2db827239a58",
    "a closure": "f5c1e917997fb1e3",
    "a partial": "d601f0d64942be36",
    "a method of an object": "f40579c1aa3909e7",
    "constants": "691358b02946aa99",
    "arrays and scalars": "1771b5ced6627165",
    "a conditional definition": "d4bb60b6a504422b",
    "globals that are set": "b01f3ac7515780a8",
    "keyword-only and positional-only": "8616e878e25b6a3b",
    "a star expression": "fe6219216daebee1",
    "recursion": "294d84e9887f2672",
}  # fmt: skip
IN_FILES = {"a method of an object"}
"""Functions with a state, which counts if they are made in a notebook: there only the file and the object agree."""


def in_a_cell(source):
    """The function `f` of a notebook's cell, whose source is known as in IPython."""
    module, name = types.ModuleType("__main__"), f"<cell {hash(source)}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    exec(compile(source, name, "exec"), vars(module))
    return module.f


def fingerprints(source, name, folder):
    """The fingerprint of the function `f` in the new module `name`, as a file, an object and a cell."""
    path = folder / f"{name}.py"
    path.write_text(source)
    importlib.invalidate_caches()
    return {
        "file": file_fingerprint(source, "f", path, folder)[0],
        "object": object_fingerprint(importlib.import_module(name).f)[0],
        "notebook": object_fingerprint(in_a_cell(source))[0],
    }


def main(write=False):
    """Print each fingerprint that differs, or store them all."""
    known, differing = {}, 0
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        sys.path.insert(0, folder)
        (Path(folder) / "toy_helper.py").write_text(HELPER)
        for number, (name, source) in enumerate(FUNCTIONS.items()):
            for way, found in fingerprints(source, f"toy_{number}", Path(folder)).items():
                known.setdefault(name, found[:16])
                if (way != "notebook" or name not in IN_FILES) and found[:16] != FINGERPRINTS.get(name):
                    differing += 1
                    print(f"    {name!r}: {found[:16]!r},  # {way}")
    if write:
        head, start, rest = Path(__file__).read_text().partition("FINGERPRINTS = {\n")
        lines = "".join(f'    "{name}": "{found}",\n' for name, found in known.items())
        Path(__file__).write_text(f"{head}{start}{lines}{rest[rest.index('}') :]}")
    print(f"Python {sys.version.split()[0]}: {len(FUNCTIONS)} functions, {differing} fingerprints differ")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] == ["--write"]))
