"""The part of a file that a function uses: what changes its identity, and what does not."""

import textwrap

import pytest

from evogt_study.methods.fingerprint import imported_files, used_content, whole_content

SOURCE = '''
"""A file."""
import numpy as np
from helper import table as known

RATE = 2.0  # a comment
OTHER = 3.0
SIZES = [1, 2]
SIZES.append(3)
if RATE > 1:
    LIMIT = 5

class Grid:
    """A class."""
    points = 4

def inner(x, y=OTHER):
    return RATE * x

def method(seed, n=1):
    """Its docstring."""
    for size in SIZES:
        seed += np.exp(inner(size))
    return {"v": seed, "w": Grid().points, "u": known(LIMIT)}

def another(seed):
    return UNUSED

UNUSED = 7

if __name__ == "__main__":
    print(method(3))
'''
CHANGED = {
    "its own code": ("seed += np", "seed -= np"),
    "a default": ("n=1", "n=2"),
    "a function that it calls": ("RATE * x", "RATE + x"),
    "a constant of that function": ("RATE = 2.0", "RATE = 2.5"),
    "a constant of its defaults": ("OTHER = 3.0", "OTHER = 3"),
    "a statement that changes a list": ("SIZES.append(3)", "SIZES.append(4)"),
    "a name under a condition": ("LIMIT = 5", "LIMIT = 6"),
    "a condition": ("RATE > 1", "RATE > 2"),
    "a class": ("points = 4", "points = 5"),
    "an import": ("import table as known", "import tables as known"),
    "a decorator": ("def inner", "@known\ndef inner"),
    "a second definition": ("UNUSED = 7", "def inner(x):\n    return 1"),
}
SAME = {
    "a comment": ("# a comment", "# another one"),
    "blank lines and spaces": ("RATE * x", "(RATE   *\n\n   x)"),
    "the quotes of a text": ('"v"', "'v'"),
    "a docstring": ("Its docstring.", "Said otherwise."),
    "the docstring of a class": ("A class.", "Said otherwise."),
    "another function": ("return UNUSED", "return 2 * UNUSED"),
    "a constant of another function": ("UNUSED = 7", "UNUSED = 8"),
    "what a script does": ("print(method(3))", "print(method(4))"),
    "a new function": ("UNUSED = 7", "UNUSED = 7\ndef third():\n    return RATE"),
    "the docstring of the file": ("A file.", "Said otherwise."),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_changes_the_identity(name):
    old, new = CHANGED[name]
    assert SOURCE.replace(old, new) != SOURCE
    assert used_content(SOURCE.replace(old, new), "method") != used_content(SOURCE, "method")


@pytest.mark.parametrize("name", SAME)
def test_what_leaves_it(name):
    old, new = SAME[name]
    assert SOURCE.replace(old, new) != SOURCE
    assert used_content(SOURCE.replace(old, new), "method") == used_content(SOURCE, "method")


def test_a_function_that_looks_names_up_by_text_is_the_whole_file():
    source = "A = 1\ndef method(seed):\n    return eval('A')\n"
    assert used_content(source, "method") != used_content(source.replace("A = 1", "A = 2"), "method")


def test_no_python_is_refused():
    with pytest.raises(SyntaxError):
        used_content("def (", "method")


@pytest.fixture
def files(tmp_path):
    def make(**sources):
        for name, source in sources.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(textwrap.dedent(source))
        return tmp_path

    return make


def test_imported_files_are_found_in_turn(files):
    folder = files(
        method="import numpy, helper\ndef f():\n    from package.part import thing",
        helper="import further", further="import method", package__init="", package__part="from . import beside",
        package__beside="", unused="",
    )  # fmt: skip
    (folder / "package" / "init.py").rename(folder / "package" / "__init__.py")
    found = imported_files(folder / "method.py", (folder / "method.py").read_text(), folder)
    assert list(found) == ["further.py", "helper.py", "package/__init__.py", "package/beside.py", "package/part.py"]


def test_whole_files_without_comments():
    assert whole_content("a = 1  # x\n") == whole_content("a=1") != whole_content("a = 2")
