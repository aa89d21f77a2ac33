"""Commands that check a result execute the code of its study only if each file equals the one that computed it."""

import os
import py_compile
import sys
import textwrap

import pytest

from evogt_study.errors import StudyError
from evogt_study.methods import code as user_code
from evogt_study.methods import loading
from evogt_study.methods.code import find_named_code
from evogt_study.study.study import Study

FILES = {
    "method.py": """
        import importlib
        import helper, package.inner
        import numpy as np
        import space.part
        dynamic = importlib.import_module("dynamic")
        def f(seed):
            return float(helper.g(seed) + package.inner.h(seed) + np.sum(dynamic.k) + space.part.q)
        def late(seed):
            import lazy
            return 0.0
    """,
    "helper.py": "from nested import two\ndef g(s):\n    return two * s\ndef unused():\n    return 1\n",
    "nested.py": "two = 2\n",
    "package/__init__.py": "from . import other\n",
    "package/inner.py": "def h(s):\n    return s\n",
    "package/other.py": "x = 1\n",
    "space/part.py": "q = 0\n",
    "dynamic.py": "k = 3\n",
    "lazy.py": "x = 1\n",
}
TEXT = 'name = "own"\nmethod = "method.py:f"\ndepends = ["data.txt"]\n[axes]\nseed = [0, 1]\n'
CHECKS = {"verify --rerun": ("verify", "own.nc", "--rerun", "1"), "try": ("try", "own.nc", "seed=1")}
STATEMENT = "\nopen('EXECUTED', 'w')\n"


@pytest.fixture
def folder(tmp_path, monkeypatch, result_of):
    """A folder with a result of the study above, in a process that has imported nothing of it."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    (tmp_path / "data.txt").write_text("1\n")
    (tmp_path / "own.toml").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    result_of(Study.from_file("own.toml"), tmp_path / "own.nc")
    user_code._run_file.cache_clear()
    loading.load_method.cache_clear()
    return tmp_path


def check_nothing_is_executed(evogt, *named):
    """Neither check executes anything, and both name these files; `verify` alone finds no mistake."""
    for command in CHECKS.values():
        code, out, err = evogt(*command)
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert all(f"{name} " in err for name in named), err
        assert "nothing was executed" in err
    assert evogt("verify", "own.nc")[0] == 0
    assert not os.path.exists("EXECUTED")


@pytest.mark.parametrize("name", [*FILES, "data.txt"])
def test_a_changed_file_is_named_and_nothing_is_executed(folder, evogt, name):
    with (folder / name).open("a") as file:
        file.write(STATEMENT)
    check_nothing_is_executed(evogt, folder / name)


CHANGES = {
    "a comment": lambda folder: (folder / "helper.py").write_text("# new\n" + FILES["helper.py"]),
    "a function that is not used": lambda folder: (folder / "helper.py").write_text(
        FILES["helper.py"].replace("return 1", "return 2")
    ),
    "a missing file": lambda folder: (folder / "package/other.py").unlink(),
    "a module of an installed name": lambda folder: (folder / "numpy.py").write_text(STATEMENT),
    "a package in place of a module": lambda folder: [
        (folder / "helper").mkdir(), (folder / "helper/__init__.py").write_text(FILES["helper.py"] + STATEMENT)
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_counts_also_if_no_run_depends_on_it(folder, evogt, name):
    CHANGES[name](folder)
    check_nothing_is_executed(evogt)


@pytest.mark.parametrize("name", CHECKS)
def test_the_files_that_computed_the_result_are_executed(folder, evogt, name):
    code, out, err = evogt(*CHECKS[name])
    assert (code, err, "equal bit for bit" in out) == (0, "", True)
    named = [line.removeprefix("  executes: ") for line in out.splitlines() if line.startswith("  executes: ")]
    assert named == ([] if name == "try" else sorted(str(folder / each) for each in [*FILES, "data.txt"]))


@pytest.mark.parametrize("name", CHECKS)
def test_compiled_code_beside_a_file_is_not_executed(folder, evogt, name):
    """Python reads it instead of the file if their times and sizes are equal."""
    file, text = folder / "nested.py", FILES["nested.py"]
    file.write_text("open('EXECUTED', 'w')\n")
    before = file.stat()
    made = py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    file.write_text(text)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.path.exists(made)
    assert evogt(*CHECKS[name])[0] == 0
    assert not (folder / "EXECUTED").exists()


@pytest.mark.parametrize("name", CHECKS)
def test_a_module_that_no_text_names_is_not_imported(folder, evogt, name, result_of, monkeypatch):
    (folder / "unseen.py").write_text("x = 1\n")
    (folder / "method.py").write_text(
        "import importlib\nimportlib.import_module('un' + 'seen')\ndef f(seed): return 1.0\n"
    )
    result_of(Study.from_file("own.toml"), folder / "own.nc")
    user_code._run_file.cache_clear()
    loading.load_method.cache_clear()
    monkeypatch.delitem(sys.modules, "unseen")
    (folder / "unseen.py").write_text(STATEMENT)
    code, _, err = evogt(*CHECKS[name])
    assert (code, "unseen.py is not among the files that the result records" in err) == (2, True), err
    assert not (folder / "EXECUTED").exists()


STANDARD = {
    "from os import system as f": "nt, posix or os",
    "import functools, subprocess\nf = functools.partial(subprocess.getoutput, 'touch EXECUTED')": "subprocess",
    "import code\nf = code.InteractiveInterpreter().runcode": "code",
    "from builtins import eval as f": "builtins",
    "from subprocess import Popen as f": "subprocess",
    "import operator\nf = operator.methodcaller('x')": "operator",
    "import functools, os\nf = functools.partial(functools.partial(os.system), 'touch EXECUTED')": "posix",
}
USER_FUNCTIONS = {
    "a function": "def f(seed): return 1.0",
    "a cached one": "import functools\n@functools.cache\ndef f(seed): return 1.0",
    "a partial": "import functools\ndef g(seed, a): return a\nf = functools.partial(g, a=1.0)",
    "a class": "class C:\n    def __call__(self, seed): return 1.0\nf = C()",
    "a bound method": "class C:\n    def g(self, seed): return 1.0\nf = C().g",
    "code of a text": "names = {}\nexec('def f(seed): return 1.0', names)\nf = names['f']",
    "a context": "import contextlib\n@contextlib.contextmanager\ndef f(seed): yield 1.0",
    "of NumPy": "from numpy import hypot as f",
}


@pytest.mark.parametrize("text", STANDARD)
def test_a_function_of_the_standard_library_is_no_method(tmp_path, text):
    (tmp_path / "own.py").write_text(text + "\n")
    with pytest.raises(
        StudyError, match=r"`own.py:f` must be code of the study .*, got the module .* standard library"
    ):
        find_named_code("own.py:f", tmp_path).load()


@pytest.mark.parametrize("name", USER_FUNCTIONS)
def test_any_other_function_is_a_method(tmp_path, name):
    (tmp_path / "own.py").write_text(USER_FUNCTIONS[name] + "\n")
    assert callable(find_named_code("own.py:f", tmp_path).load())


@pytest.mark.parametrize("reference", ["json:loads", "xml.etree.ElementTree:parse", "os.path:os.system", "sys:exit"])
def test_a_module_of_the_standard_library_is_refused_by_its_name(tmp_path, reference):
    with pytest.raises(StudyError, match="of Python's standard library. Write a function that calls it"):
        find_named_code(reference, tmp_path)


def test_finding_a_module_imports_no_package(tmp_path, monkeypatch):
    (tmp_path / "toy_found").mkdir()
    (tmp_path / "toy_found/__init__.py").write_text("raise SystemExit('imported')\n")
    (tmp_path / "toy_found/part.py").write_text("def f(seed): return 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert [name for name, _ in find_named_code("toy_found.part:f", tmp_path).files] == ["", "toy_found/__init__.py"]
