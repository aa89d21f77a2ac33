"""Fingerprints of the functions in `fingerprints.toml`, computed with Python 3.11, 3.12 and 3.13.

    python tests/across/fingerprint_table.py

prints each fingerprint that differs, in each way to name a function.  It needs the package and NumPy only.
The option --write stores the fingerprints of today in that file.
"""

import importlib
import linecache
import re
import sys
import tempfile
import tomllib
import types
import warnings
from pathlib import Path

from evogt_study.methods.fingerprint import fingerprint_file, fingerprint_object

HELPER = "SCALE = 3\ndef shift(x):\n    return x + SCALE\ndef unused():\n    return 1\n"
"""The file toy_helper.py beside each function."""
PATH = Path(__file__).with_name("fingerprints.toml")
TABLE = tomllib.loads(PATH.read_text("utf-8"))
FUNCTIONS = {name: entry["source"] for name, entry in TABLE.items()}
FINGERPRINTS = {name: entry["fingerprint"] for name, entry in TABLE.items()}
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
        "file": fingerprint_file(source, "f", path, folder)[0],
        "object": fingerprint_object(importlib.import_module(name).f)[0],
        "notebook": fingerprint_object(in_a_cell(source))[0],
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
        today = iter(known.values())  # in the order of the file
        text = re.sub(r'(?m)^fingerprint = ".*"$', lambda _: f'fingerprint = "{next(today)}"', PATH.read_text("utf-8"))
        PATH.write_text(text, "utf-8")
    print(f"Python {sys.version.split()[0]}: {len(FUNCTIONS)} functions, {differing} fingerprints differ")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] == ["--write"]))
