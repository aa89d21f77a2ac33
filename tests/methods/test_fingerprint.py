"""What changes the fingerprint of a function: in a file, and of an object with the values that it uses."""

import copy
import functools
import itertools
import json
import linecache
import pickle
import subprocess
import sys
import textwrap
import time
import types
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.interpolate
import scipy.sparse
import scipy.stats
import xarray as xr
from helpers import examples, read_table
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from evogt_study.errors import CodeWarning, StudyError
from evogt_study.methods.fingerprint import fingerprint_file, fingerprint_object
from evogt_study.methods.python_files import add_depends
from evogt_study.study.study import Study

TABLE = read_table(__file__)
SOURCE, HELPER = TABLE["source"], TABLE["helper"]


@pytest.fixture
def fingerprint(tmp_path):
    def of(source=SOURCE, helper=HELPER, name="method.py", attribute="method"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(source)
        (path.parent / "helper.py").write_text(helper)
        return fingerprint_file(source, attribute, path, path.parent)[0]

    return of


@pytest.mark.parametrize("name", TABLE["changed"])
def test_what_changes_the_fingerprint(fingerprint, name):
    old, new = TABLE["changed"][name]
    assert SOURCE.count(old) == 1 or name == "a value before a name is bound again"
    assert fingerprint(SOURCE.replace(old, new, 1)) != fingerprint()


@pytest.mark.parametrize("name", TABLE["same"])
def test_what_leaves_it(fingerprint, name):
    old, new = TABLE["same"][name]
    assert SOURCE.replace(old, new) != SOURCE
    assert fingerprint(SOURCE.replace(old, new)) == fingerprint()


def test_the_used_part_of_a_helper_counts(fingerprint):
    changed = [fingerprint(helper=HELPER.replace(*each)) for each in TABLE["helper_changed"].values()]
    assert len({fingerprint(), *changed}) == 3
    same = {fingerprint(helper=HELPER.replace(*each)) for each in TABLE["helper_same"].values()}
    assert same == {fingerprint()}


def test_the_name_and_the_folder_of_the_file_do_not_count(fingerprint):
    assert len({fingerprint(name=name) for name in ("method.py", "other.py", "deep/er/method.py")}) == 1


def test_a_name_that_a_file_imports_is_the_name_there(fingerprint):
    assert fingerprint("from helper import scale\n", attribute="scale") == fingerprint(HELPER, attribute="scale")


def test_packages_are_followed(tmp_path):
    def of(attribute="run", **changes):
        for name, text in TABLE["package"].items():
            (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
            (tmp_path / name).write_text(text.replace(*changes.get(name.split("/")[-1][:-3], ("", ""))))
        path = tmp_path / "method.py"
        source = f"import pkg\nfrom pkg import {attribute} as it\ndef f(seed):\n    return it(seed)\n"
        found, files = fingerprint_file(source, "f", path, tmp_path)
        assert {name for name, _ in files} >= {str(tmp_path / "pkg" / "core.py"), str(tmp_path / "pkg/deep/steps.py")}
        return found

    others = [of(extra=("1", "2")), of(late=("4", "5")), of(steps=("* 2", "* 3")), of(core=("step(seed)", "step(1)"))]
    assert len({of(), *others}) == 5


def test_a_function_that_looks_names_up_by_text_is_the_whole_file(fingerprint):
    source = "A = 1\ndef method(seed):\n    return eval('A')\n"
    assert fingerprint(source) != fingerprint(source.replace("A = 1", "A = 2"))


def test_nothing_is_executed_and_no_python_is_refused(fingerprint):
    assert fingerprint("raise SystemExit\ndef method(seed):\n    return 1\n")
    with pytest.raises(SyntaxError):
        fingerprint("def (")


def test_files_on_which_it_depends_count_wherever_the_study_is(tmp_path):
    known = [("data/a.csv", "1"), ("data/b.csv", "2")]
    moved = [("../data/a.csv", "1"), ("../data/b.csv", "2")]
    swapped = [("data/a.csv", "2"), ("data/b.csv", "1")]
    assert add_depends("x", known, tmp_path) == add_depends("x", moved, tmp_path / "studies")
    assert len({"x", add_depends("x", known, tmp_path), add_depends("x", swapped, tmp_path)}) == 3


# --- objects ----------------------------------------------------------------------------------------------------------

_numbers = itertools.count()


def run_cells(*texts, **names):
    """The names of a notebook after these cells, whose texts are known."""
    module = types.ModuleType("__main__")
    vars(module).update(names, In=[""])
    for text in map(textwrap.dedent, texts):
        name = f"<cell {next(_numbers)}>"
        linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
        vars(module)["In"].append(text)
        exec(compile(text, name, "exec"), vars(module))
    return vars(module)


def cell(*texts, **names):
    """The function `f` of these cells."""
    return run_cells(*texts, **names)["f"]


def content(value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CodeWarning)
        return fingerprint_object(value)[0]


USES = "def f(seed):\n    return helper(seed) + RATE\ndef helper(x):\n    return 2 * x\n"
USE = "def f(seed):\n    return g(seed)\n"
CACHE = f"import functools\nRATE = 2\n@functools.lru_cache(maxsize=8)\ndef g(x):\n    return x + RATE\n{USE}"
FIRST, SECOND = "A = 2\ndef g(x):\n    return A * x\n", "A = 3\ndef g(x):\n    return A + x\n"
MAKE = "def make(a):\n    return lambda seed: a * seed\nf = make(k)\n"
CLASS = TABLE["class"]
IN_FUNCTION = "def make():\n" + textwrap.indent(CLASS, "    ") + "    return f\nf = make()\n"
JSON = "import json\nRATE = 2\ndef f(seed):\n    return len(json.dumps(RATE))\n"
CLASS_CHANGES = TABLE["class_changed"].values()
CELLS_THAT_DIFFER = {
    **{f"behind a cache: {new}": ((CACHE,), (CACHE.replace(old, new),)) for old, new in (
        ("RATE = 2", "RATE = 3"), ("x + RATE", "x - RATE"), ("maxsize=8", "maxsize=9"))},
    **{f"a class: {new}": ((CLASS,), (CLASS.replace(old, new),)) for old, new in CLASS_CHANGES},
    **{f"a class in a function: {new}": (
        (IN_FUNCTION,), (IN_FUNCTION.replace(old, new),)) for old, new in CLASS_CHANGES},
    "a cell that was run again": ((FIRST, SECOND, USE), (FIRST, USE)),
    "a name that a later cell binds again": (("k = 1", MAKE, "k = 2"), ("k = 2", MAKE)),
    "an enclosed value": (("k = 1\n" + MAKE,), ("k = 2\n" + MAKE,)),
    "a type of enclosed value": (("k = 1\n" + MAKE,), ("k = 1.0\n" + MAKE,)),
    "lambdas of one line": (
        ("g, f = lambda s: s + 2, lambda s: s + 1",), ("g, f = lambda s: s + 1, lambda s: (lambda x: x)(s)",)
    ),
    "a list that another cell changes": (("B = [1]\n" + USE.replace("g(seed)", "B"), "B.append(2)"), (
        "B = [1]\n" + USE.replace("g(seed)", "B"),)),
}  # fmt: skip
EQUAL_CELLS = {
    "a cell that was run again": ((FIRST, SECOND, USE), (SECOND, USE)),
    "other cells before it": (("k = 2", MAKE), ("x = 1", "k = 2\n" + MAKE)),
    **{f"a later cell: {later}": ((JSON,), (JSON, later)) for later in (
        "f", "print(f(3))", "len([f])", "json.dumps(f(1))", "x = f(2)", "RATE")},
}  # fmt: skip


@pytest.mark.parametrize("name", CELLS_THAT_DIFFER)
def test_cells_that_change_a_fingerprint(name):
    one, other = CELLS_THAT_DIFFER[name]
    assert content(cell(*one)) == content(cell(*one)) != content(cell(*other))


@pytest.mark.parametrize("name", EQUAL_CELLS)
def test_cells_that_leave_a_fingerprint(name):
    one, other = EQUAL_CELLS[name]
    assert content(cell(*one)) == content(cell(*other))


VALUES = {
    "a number": (1.0, 1.5), "a type of number": (1, 1.0), "a boolean": (1, True),
    "an array": (np.arange(3), np.arange(1, 4)), "a text": ("a", "b"),
    "a type of array": (np.arange(3), np.arange(3.0)), "a list": ([1, 2], [2, 1]), "a tuple": ((1,), [1]),
    "a dict": ({"a": 1}, {"a": 2}), "a set": ({1, 2}, {1, 3}), "a frozen set": (frozenset({1}), frozenset({2})),
    "a frame": (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]})), "a NumPy number": (np.float64(1), 1.0),
    "None": (None, 0), "infinity": (float("inf"), float("nan")), "a sign": (0.0, -0.0),
    "a partial": (functools.partial(min, 1), functools.partial(min, 2)), "a module": (np, pd),
    "a lambda": (lambda x: x, lambda x: x + 1), "objects in an array": (
        np.array([1, "a"], dtype=object), np.array([1, "b"], dtype=object)
    ), "masked entries": (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 0])),
    "a class of a package": (pd.Series, pd.DataFrame),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_that_a_function_uses_count(name):
    one, other = VALUES[name]
    assert content(cell(USES, RATE=one)) == content(cell(USES, RATE=one))
    assert content(cell(USES, RATE=one)) != content(cell(USES, RATE=other))
    assert content(functools.partial(abs, one)) != content(functools.partial(abs, other))


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.dates(),
    st.complex_numbers(allow_nan=False),
)  # fmt: skip
NESTED = st.recursive(
    SCALARS | arrays.arrays(st.sampled_from(["f8", "i4", "?"]), (2,)),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(SCALARS, inner, max_size=3)
    | st.sets(SCALARS, max_size=3),
    max_leaves=6,
)  # fmt: skip


def shown(value):
    """A text that is equal only for values of equal types and contents."""
    if isinstance(value, (set, frozenset)):
        return f"{type(value)}{sorted(map(shown, value))}"
    if isinstance(value, dict):
        return f"dict{[(shown(name), shown(each)) for name, each in value.items()]}"
    if isinstance(value, (list, tuple)):
        return f"{type(value)}{list(map(shown, value))}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    return f"{type(value)}{value!r}"


@settings(max_examples=examples(100))
@given(NESTED, NESTED)
def test_two_values_have_one_fingerprint_only_if_they_are_the_same(one, other):
    assert (content(one) == content(other)) is (shown(one) == shown(other))


@settings(max_examples=examples(50))
@given(NESTED)
def test_a_captured_literal_counts_as_its_text(value):
    text = repr(value)
    try:
        is_literal = shown(eval(text, {})) == shown(value)
    except (NameError, SyntaxError, TypeError):
        is_literal = False
    if is_literal:
        assert content(cell(f"RATE = {text}", USES)) == content(cell(USES, RATE=value))


def test_a_script_that_binds_a_name_again_has_other_fingerprints(tmp_path):
    (tmp_path / "script.py").write_text(TABLE["script"])
    lines = [
        subprocess.run([sys.executable, "script.py", *more], cwd=tmp_path, capture_output=True, text=True, check=True)
        for more in ([], ["x"])
    ]
    one, other = (json.loads(line.stdout) for line in lines)
    assert len(set(one[:4])) == 4
    assert one[-1] != other[-1]


def test_a_value_that_differs_from_the_text_counts():
    function = cell("A = 2\nB = [1]\ndef f(seed, c=A):\n    return A, B\n")
    before = content(function)
    function.__globals__["A"] = 5
    changed = content(function)
    function.__globals__["A"] = 2
    function.__globals__["B"].append(2)
    other = content(function)
    function.__globals__["B"].pop()
    function.__defaults__ = (7,)
    assert len({before, changed, other, content(function)}) == 4
    method = cell(CLASS)
    before, method.__self__.rate = content(method), 5
    assert content(method) != before


def test_a_module_that_has_changed_since_it_was_imported_counts_by_its_code(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "toy_stale.py").write_text("def f(seed):\n    return seed\n")
    import toy_stale

    before = content(toy_stale.f)
    (tmp_path / "toy_stale.py").write_text("def f(seed):\n    return 2 * seed\n")
    with pytest.warns(CodeWarning, match="the source of `f` is unknown or has changed since its import"):
        assert before != fingerprint_object(toy_stale.f)[0]
    del sys.modules["toy_stale"]


def test_functions_without_a_source_count_by_their_code():
    names = {"RATE": 2}
    exec("def f(seed):\n    return RATE * seed\ndef g(seed):\n    return RATE + seed\n", names)
    with pytest.warns(CodeWarning, match="the source of `f` is unknown"):
        one = fingerprint_object(names["f"])[0]
    assert one == content(names["f"]) != content(names["g"])
    names["RATE"] = 3
    assert content(names["f"]) != one


def test_a_decorated_function_without_a_name_counts_by_its_text():
    source = "import functools\ndef twice(g):\n    @functools.wraps(g)\n    def inner(x):\n        return 2 * g(x)\n"
    function = run_cells(source + "    return inner\nmany = [twice(lambda x: x)]\n")["many"][0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fingerprint_object(function)


def test_an_object_without_a_literal_form_counts_with_a_warning():
    with pytest.warns(CodeWarning, match=r"type pandas\.\S*DataFrame has no literal form"):
        fingerprint_object(pd.DataFrame({"a": [1]}))


class Square:
    def __init__(self, side):
        self.side = side

    @functools.cached_property
    def area(self):
        return self.side**2


READ = {
    "a dataset": lambda: xr.Dataset({"a": ("x", [1.0, 2.0])}, {"x": pd.date_range("2020", periods=2)}),
    "an array": lambda: xr.DataArray([1.0, 2.0], dims="x", coords={"x": [1, 2]}),
    "a tree": lambda: xr.DataTree.from_dict({"/": xr.Dataset({"a": 1})}),
    "a frame": lambda: pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}),
    "dates": lambda: pd.date_range("2020", periods=3),
    "labels of two levels": lambda: pd.MultiIndex.from_product([[1, 2], ["a", "b"]]),
    "a sparse matrix": lambda: scipy.sparse.eye(3, format="csr"),
    "a spline": lambda: scipy.interpolate.CubicSpline([0, 1, 2], [1, 2, 3]),
    "a cached property": lambda: Square(3),
}
ACTIONS = {
    "show": repr, "pickle": lambda value: pickle.loads(pickle.dumps(value)), "copy": copy.deepcopy,
    "own copy": lambda value: value.copy() if hasattr(value, "copy") else None,
    "attributes": lambda value: [getattr(value, name, None) for name in ("attrs", "area", "T", "values", "none")],
    "fingerprint": lambda value: content(value), "draw": lambda value: np.random.random(),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(actions=st.lists(st.sampled_from([*ACTIONS]), max_size=5))
def test_reading_an_object_does_not_change_its_fingerprint(name, actions):
    value = READ[name]()
    for action in actions:
        found = ACTIONS[action](value)
        value = found if action in ("pickle", "copy") else value
    assert content(value) == content(READ[name]())


def test_a_distribution_has_one_fingerprint_whatever_was_drawn_before():
    before = content(scipy.stats.norm(0, 1))
    np.random.random()
    assert content(scipy.stats.norm(0, 1)) == before != content(scipy.stats.norm(0, 2))


class Restless:
    count = itertools.count()

    def __reduce__(self):
        return Restless, (), {"count": next(self.count)}


def test_an_object_whose_pickled_content_always_differs_is_refused_by_name():
    with pytest.raises(StudyError, match="`model = a` must be an object .*its pickled content differs at each access"):
        Study(lambda model: 1.0, axes={"model": {"a": Restless()}})


# --- what is installed, and many definitions --------------------------------------------------------------------------


def chain_of_classes(length):
    kind = object
    for number in range(length):
        kind = type(f"K{number}", (kind,), {"number": number})
    return kind


def diamond(value, join, depth=30):
    """A value in which each level contains the one below twice: a billion parts, 30 of them different."""
    for _ in range(depth):
        value = join(value)
    return value


def functions_that_call_each_other(count, in_closures=False):
    text = "".join(
        f"def f{i}(x):\n    return f{(i + 1) % count}(x) + f{(7 * i + 3) % count}(x) + {i}\n" for i in range(count)
    )
    if in_closures:
        text = "def make():\n" + textwrap.indent(text, "    ") + "    return f0\nf0 = make()\n"
    return run_cells(text)["f0"]


INSTALLED = {
    "a class": lambda: pd.Series, "a compiled class": lambda: np.ndarray, "a large class": lambda: xr.Dataset,
    "a function": lambda: pd.concat, "a function behind a dispatcher": lambda: np.linalg.norm,
    "a function of NumPy": lambda: np.exp, "a method": lambda: pd.Series.mean,
    "a method of a class": lambda: pd.DataFrame.from_dict, "a method of an object": lambda: pd.Series([1.0]).mean,
    "a module": lambda: xr, "a partial": lambda: functools.partial(pd.concat, axis=1),
    "a partial of a class": lambda: functools.partial(xr.Dataset, coords=None), "an object": lambda: np.vectorize(abs),
    "a class of the package": lambda: Study, "a frame": lambda: pd.DataFrame({"a": [1]}),
}  # fmt: skip
MANY = {
    "classes one from the other": lambda: chain_of_classes(1000),
    "functions that call each other": lambda: functions_that_call_each_other(2000),
    "functions in a function that call each other": lambda: functions_that_call_each_other(1000, in_closures=True),
    "names that follow from each other": lambda: run_cells(
        "def g(*x): return x\na = b = g(1)\n" + "a, b = g(a, b)\n" * 500 + "def h(): return a, b\n"
    )["h"],
    "values of two names that follow from both": lambda: run_cells(
        "def g(*x): return lambda: x\na0 = g(1)\nb0 = g(2)\n"
        + "".join(f"a{i + 1} = g(a{i}, b{i})\nb{i + 1} = g(a{i}, b{i})\n" for i in range(30))
        + "def h(): return a30, b30\n"
    )["h"],
    "shared lists of numbers": lambda: diamond([1.5], lambda value: [value, value]),
    "shared lists": lambda: diamond([object], lambda value: [value, value]),
    "shared sets": lambda: diamond(frozenset([object]), lambda value: frozenset([(value, 1), (value, 2)])),
    "shared classes": lambda: diamond(object, lambda value: type("D", (), {"left": value, "right": value})),
    "shared closures": lambda: diamond(abs, lambda value: lambda x: value(x) + value(-x)),
    "shared objects": lambda: diamond(None, lambda value: types.SimpleNamespace(left=value, right=value)),
    "a list in itself": lambda: (lambda entries: entries.append(entries) or entries)([1]),
    "deep lists": lambda: diamond([object], lambda value: [value], 400),
}


SECONDS = {
    "functions that call each other",
    "functions in a function that call each other",
    "classes one from the other",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in SECONDS else ()) for name in [*INSTALLED, *MANY]]
)
def test_a_fingerprint_takes_about_a_second_at_most(name):
    value = (INSTALLED | MANY)[name]()
    start = time.process_time()
    found = content(value)
    assert time.process_time() - start < 3  # on a machine that does much else
    assert content(value) == found


def test_what_is_installed_counts_by_its_name():
    values = [content(make()) for make in INSTALLED.values()]
    assert len({*values}) == len(values)
    assert content(pd.Series) == content(copy.copy(pd.Series)) == content(pd.core.series.Series)


@pytest.mark.parametrize("depth", [1, 5, 12])
def test_values_that_are_shared_count_as_equal_ones_that_are_not(depth):
    def level(share, inner):
        return [inner, inner if share else copy.deepcopy(inner)]

    for inner in ([{"a": np.arange(3)}, float("inf")], [1.5, "a", 3]):
        shared, apart = (diamond(inner, functools.partial(level, share), depth) for share in (True, False))
        assert content(shared) == content(apart)
