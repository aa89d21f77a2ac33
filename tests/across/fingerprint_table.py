"""Fingerprints of functions, computed with Python 3.11, 3.12 and 3.13.

    python tests/across/fingerprint_table.py

prints each fingerprint that differs, in each way to name a function.  It needs the package and NumPy only.
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
    "a function": "642fb868a0d6f208",
    "comments and a docstring": "642fb868a0d6f208",
    "a helper and a constant": "5b493e49a3a9528b",
    "an import": "7c1fa026b710806d",
    "an import of a name": "c6db2255b5e18930",
    "a helper file": "1374fb024723448e",
    "a name of a helper file": "8da0073792ea4a4b",
    "all of a helper file": "ea33435c476afb00",
    "an import in a function": "3c921472d32e7b03",
    "a try": "335486976d171bae",
    "an exception with a name": "e55f9fb1852fe3c3",
    "a comprehension": "ef1598ca7af621b7",
    "comprehensions": "5a1b419fa4e910f5",
    "a nested format": "a1810e72bd7023f6",
    "formats": "430c616b48a7b760",
    "a match": "46ae8fc025b111f1",
    "a match of shapes": "4587eff8a2405729",
    "a walrus": "9708a273ff09cd9f",
    "async": "8de8964567fdeead",
    "a generator function": "26e58101df6d16e0",
    "a dataclass": "2e0542622bd8b24e",
    "classes": "0080fa29f67be4b3",
    "an enumeration": "b7bcd3987f252450",
    "a cache": "c872c02c98c5837e",
    "a decorator": "dd93b5e7bfe16f01",
    "a decorated function": "d5837600ed1024d6",
    "a lambda": "ab7b6668dc26783b",
    "a closure": "4ca38a07c9633810",
    "a partial": "7576d2bb05acf4f6",
    "a method of an object": "3baf1010edc5ae73",
    "constants": "9f90aee7c9c05479",
    "arrays and scalars": "79dddefc7e5e208d",
    "a conditional definition": "b264f84be913d533",
    "globals that are set": "0ef1d5802b45603b",
    "keyword-only and positional-only": "5b768cfea5ff7ed9",
    "a star expression": "2c7772dcff9f4460",
    "recursion": "8c17110a018285ee",
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


def main():
    """Print what differs."""
    differing = 0
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        sys.path.insert(0, folder)
        (Path(folder) / "toy_helper.py").write_text(HELPER)
        for number, (name, source) in enumerate(FUNCTIONS.items()):
            for way, found in fingerprints(source, f"toy_{number}", Path(folder)).items():
                if (way != "notebook" or name not in IN_FILES) and found[:16] != FINGERPRINTS.get(name):
                    differing += 1
                    print(f"    {name!r}: {found[:16]!r},  # {way}")
    print(f"Python {sys.version.split()[0]}: {len(FUNCTIONS)} functions, {differing} fingerprints differ")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
