"""The loader: what a study file may say, what identifies its cases, and the one line for every mistake in it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import evogt_study as evs
from evogt_study.cli.main import main
from evogt_study.errors import StudyError
from evogt_study.pde.problems import BUILT_IN
from evogt_study.study.designs import SECTIONS, StatedDesign
from evogt_study.study.model import read_toml, write_toml
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study

STUDIES = Path(__file__).parents[2] / "studies"

# --- writing study files ----------------------------------------------------------------------------------------------

AXES = {"seed": "[0, 1]"}
CONSTANTS = {
    "dictionary": '"transnet"', "N": "4", "gamma": "4", "quadrature": "8", "validation": "8", "final_time": "1",
    "dt": "0.25",
}  # fmt: skip
PROBLEM = {"dimension": "1", "exact": '"exp(-t)*sin(pi*x)"'}
PILOT = {"parameter": '"gamma"', "seeds": "[7, 8]", "by": "[]", "candidates": "[2, 4]"}


def toml(top=None, *, axes=None, constants=None, problem=PROBLEM, pilot=None, output=None, extra=""):
    """A small valid study with entries added or changed; None takes one away.  Values are TOML text."""
    sections = {
        "axes": {**AXES, **(axes or {})},
        "constants": {**CONSTANTS, **(constants or {})},
        "problem": problem,
        "pilot": pilot,
        "output": output,
    }
    lines = _entries({"name": '"tiny"', **(top or {})})
    for name, entries in sections.items():
        if entries is not None:
            lines += [f"[{name}]", *_entries(entries)]
    return "\n".join([*lines, extra, ""])


def _entries(entries):
    return [f"{key} = {value}" for key, value in entries.items() if value is not None]


def when(match, given):
    return f"[[when]]\nmatch = {match}\nset = {given}\n"


def with_pilot(**changed):
    return toml(constants={"gamma": None}, pilot={**PILOT, **changed})


def own_method(source_axes="", **constants):
    """A study of the function `f` in own.py."""
    given = "\n".join(f"{name} = {value}" for name, value in constants.items())
    return f'name = "own"\nmethod = "own.py:f"\n[axes]\nseed = [0, 1]\n{source_axes}\n[constants]\n{given}\n'


@pytest.fixture
def load(tmp_path):
    """Writes a study file, and Python files beside it, and reads it."""

    def read(text, **files):
        for name, source in files.items():
            (tmp_path / f"{name}.py").write_text(source)
        path = tmp_path / "tiny.toml"
        path.write_text(text)
        return Study.from_file(path)

    return read


@pytest.fixture
def refusal(load, tmp_path):
    """Reads a study that must be refused; the message, checked to be one line that names the file."""

    def read(text, **files):
        with pytest.raises(StudyError) as caught:
            load(text, **files)
        message = str(caught.value)
        assert len(message.splitlines()) == 1
        assert len(message) < 1000
        assert str(tmp_path / "tiny.toml") in message
        return message

    return read


def cases(study):
    return list(plan_study(study)[-1].cases())


def keys(study):
    """Case keys in the order of the axes."""
    return [case.key for case in sorted(cases(study), key=lambda case: case.index)]


# --- studies that are read --------------------------------------------------------------------------------------------


# without a study whose program has to be compiled first
READABLE = sorted(path for path in STUDIES.rglob("*.toml") if not path.with_suffix(".c").exists())


SECONDS = {
    "allen_cahn_1d",
    "kuramoto_sivashinsky",
    "brusselator",
    "gray_scott",
    "oscillatory_1d_seeds",
    "heat_multiscale",
}


@pytest.mark.parametrize(
    "path",
    [pytest.param(each, marks=pytest.mark.long if each.stem in SECONDS else (), id=each.stem) for each in READABLE],
)
def test_every_study_of_the_repository_is_the_same_in_toml_in_python_and_in_a_written_file(path, tmp_path, monkeypatch):
    study = Study.from_file(path)
    assert (study.name, study.file, study.space.size > 0) == (path.stem, str(path), True)
    # the content of files that tables name comes after it
    assert study.text.split("\n# what the files of [[table]] held")[0] == path.read_text()
    assert read_toml(write_toml(study.model.given), "text") == study.model
    monkeypatch.chdir(path.parent)
    given = study.model.given
    designs = [StatedDesign(section, each) for section in SECTIONS for each in given.pop(section, [])]
    given.pop("table_files", None)
    in_python = Study(**given, designs=designs, common=given.pop("random", {}).get("common"))
    written = Study.from_file(in_python.to_file(tmp_path / path.name))
    for other in (in_python, written):
        assert other.axes == study.axes
        assert [plan.keys.tolist() for plan in plan_study(other)] == [plan.keys.tolist() for plan in plan_study(study)]


def test_the_pilot_may_choose_a_parameter_that_has_a_default(load):
    study = load(toml(pilot={**PILOT, "parameter": '"tau"', "candidates": "[1e-12, 1e-6]"}))
    assert {case.values["tau"] for case in plan_study(study)[0].cases()} == {1e-12, 1e-6}


OWN = "def f(seed, width, depth=2, name='x', scale=None):\n    return {'error': float(seed)}\n"


FACTORY = """
from evogt_study.pde import FormulaProblem

def heat(k, nu=0.5):
    return FormulaProblem(1, exact="exp(-t)*sin(a*pi*x)", diffusion="b")(a=k, b=nu)

waves = FormulaProblem(1, exact="exp(-t)*sin(m*pi*x)")
"""


def test_a_problem_from_a_factory_and_from_a_statement_in_a_python_file(load):
    made = load(toml({"problem": '"own.py:heat"'}, axes={"k": "[1, 2]"}, problem=None), own=FACTORY)
    assert made.space.constants["nu"] == 0.5
    stated = load(toml({"problem": '"own.py:waves"'}, axes={"m": "[1, 2]"}, problem=None), own=FACTORY)
    assert stated.space.names == ("seed", "m")


def test_python_files_are_found_from_the_study_files_folder(tmp_path, monkeypatch):
    folder = tmp_path / "deep" / "folder"
    folder.mkdir(parents=True)
    (folder.parent / "own.py").write_text("def f(seed): return {'error': 0.0}")
    (folder / "s.toml").write_text('name = "s"\nmethod = "../own.py:f"\n[axes]\nseed = [0]\n')
    monkeypatch.chdir(tmp_path)
    assert Study.from_file("deep/folder/s.toml").space.size == 1


# --- what identifies a case -------------------------------------------------------------------------------------------

DEEP = {"dictionary": '"gtransnet"', "N1": "6"}

ROUND, DIFFUSION = {"time_integrator": '"implicit_midpoint"'}, json.dumps(BUILT_IN["oscillatory_1d"].diffusion)
BUILT_IN_FORMULAS = {
    "dimension": "1", "exact": json.dumps(BUILT_IN["oscillatory_1d"].exact), "diffusion": DIFFUSION,
}  # fmt: skip
TINY = toml()
SAME = {
    "N1 or hidden": (toml(constants=DEEP), toml(constants={"dictionary": '"gtransnet"', "hidden": "[6]"})),
    "defaults": (TINY, toml(constants={"tau": "1e-12", "centre": "0.5", "radius": "0.8", **ROUND})),
    "delta, by default or given": (toml(constants=DEEP), toml(constants={**DEEP, "delta": "0.5"})),
    "the method's name left out": (TINY, toml({"method": '"evolution"'})),
    "what a one-layer dictionary lacks": (TINY, toml(constants={"N1": "99", "hidden": "[9, 9]", "delta": "0.25"})),
    "integers as floats": (TINY, toml(constants={"gamma": "4.0", "final_time": "1.0"})),
    "a rule": (TINY, toml(constants={"quadrature": '{ rule = "gauss_legendre", points = 8 }'})),
    "a formula's constants": (toml(problem={**PROBLEM, "diffusion": '"1"'}), TINY),
    "a built-in problem or the same formulas": (
        toml({"problem": '"oscillatory_1d"'}, constants={"epsilon": "0.5"}, problem=None),
        toml(constants={"epsilon": "0.5"}, problem=BUILT_IN_FORMULAS),
    ),
    "a constant or a rule": (
        TINY, toml(constants={"gamma": None}, extra=when("{ seed = [0, 1] }", "{ gamma = 4 }"))
    ),
    "title, source and name": (TINY, toml({"name": '"other"', "title": '"t"', "source": '"s"'})),
    "times where nothing is recorded at them": (TINY, toml(output={"times": "3"})),
    "the grid where no field is recorded": (TINY, toml(output={"grid": "9"})),
    "the order of what is recorded": (
        toml(output={"record": '["error_history", "norm_history"]'}),
        toml(output={"record": '["norm_history", "error_history", "norm_history"]'}),
    ),
    "times counted or listed": (
        toml(output={"times": "3", "record": '["error_history"]'}),
        toml(output={"times": "[0, 0.5, 1]", "record": '["error_history"]'}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_the_same_computation_has_the_same_keys(load, name):
    first, second = SAME[name]
    assert keys(load(first)) == keys(load(second))


def test_the_pilots_choice_or_a_constant_is_the_same(load):
    study = load(with_pilot())
    chosen = [case.key for case in plan_study(study)[-1].cases()]
    assert chosen == keys(load(toml(constants={"gamma": "2"})))


OTHER = {
    "dictionary": toml(constants={"dictionary": '"uniform_elm"'}),
    "seed": toml(axes={"seed": "[2, 3]"}),
    "N": toml(constants={"N": "5"}),
    "gamma": toml(constants={"gamma": "5"}),
    "gamma of each neuron": toml(constants={"gamma": "[4, 4, 4, 4.5]"}),
    "radius": toml(constants={"radius": "0.9"}),
    "centre": toml(constants={"centre": "0.25"}),
    "tau": toml(constants={"tau": "1e-11"}),
    "assembly points": toml(constants={"quadrature": "9"}),
    "assembly rule": toml(constants={"quadrature": '{ rule = "composite_midpoint", points = 8 }'}),
    "validation points": toml(constants={"validation": "9"}),
    "validation rule": toml(constants={"validation": '{ rule = "composite_midpoint", points = 8 }'}),
    "dt": toml(constants={"dt": "0.125"}),
    "final_time": toml(constants={"final_time": "2"}),
    "solution": toml(problem={**PROBLEM, "exact": '"exp(-2*t)*sin(pi*x)"'}),
    "diffusion": toml(problem={**PROBLEM, "diffusion": '"2"'}),
    "initial instead of exact": toml(problem={"dimension": "1", "initial": '"sin(pi*x)"'}),
    "a parameter of the problem": toml(constants={"k": "1"}, problem={**PROBLEM, "diffusion": '"k"'}),
    "another value of it": toml(constants={"k": "2"}, problem={**PROBLEM, "diffusion": '"k"'}),
    "gtransnet": toml(constants=DEEP),
    "N1": toml(constants={**DEEP, "N1": "7"}),
    "delta": toml(constants={**DEEP, "delta": "0.75"}),
    "hidden": toml(constants={"dictionary": '"gtransnet"', "hidden": "[6, 6]"}),
    "record": toml(output={"record": '["error_history"]'}),
    "more recorded": toml(output={"record": '["error_history", "norm_history"]'}),
    "times": toml(output={"record": '["error_history"]', "times": "3"}),
    "field": toml(output={"record": '["field"]'}),
    "grid": toml(output={"record": '["field"]', "grid": "9"}),
}


def test_every_parameter_that_matters_changes_the_key():
    found = {name: keys(Study.from_text(text))[0] for name, text in {"base": toml(), **OTHER}.items()}
    owners = {}
    for name, key in found.items():
        owners.setdefault(key, []).append(name)
    assert [names for names in owners.values() if len(names) > 1] == []


# --- studies that are refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run_status", "error", "run_pilot", "string5", "k" * 241])
def test_a_default_of_a_problems_factory_is_refused_under_a_name_of_the_result_file(refusal, name):
    """It becomes a constant of the study, which the file holds too."""
    own = FACTORY.replace("nu=0.5", f"nu=0.5, {name}=1")
    message = refusal(toml({"problem": '"own.py:heat"'}, axes={"k": "[1, 2]"}, problem=None), own=own)
    assert f"the parameter `{name}` must have another name" in message
    assert f"constants.{name}" in message


def advice(message):
    return float(re.search(r"Use e\.g\. ([\d.e+-]+)", message).group(1))


@pytest.mark.parametrize(
    ("final_time", "dt"), [("1", "0.4"), ("1", "0.3"), ("0.7", "0.3"), ("0.25", "0.0033"), ("2", "1.3")]
)
def test_the_time_step_that_the_message_advises_is_one_that_fits(load, refusal, final_time, dt):
    message = refusal(toml(constants={"final_time": final_time, "dt": dt}))
    assert load(toml(constants={"final_time": final_time, "dt": repr(advice(message))})).space.size == 2


def test_rules_of_several_values_of_a_parameter_that_can_itself_be_a_list(load):
    """gamma may be a list, one for each neuron; [4, 6] of an axis [4, 6, 8] still means two of its values."""
    axes = {"gamma": "[4, 6, 8]"}
    study = load(toml(axes=axes, constants={"gamma": None}, extra=when("{ gamma = [4, 6] }", "{ tau = 0.5 }")))
    assert {(c.values["gamma"], c.values["tau"]) for c in cases(study)} == {(4.0, 0.5), (6.0, 0.5), (8.0, 1e-12)}


def test_rules_of_one_list_and_of_several_lists(load):
    axes, constants = {"hidden": "[[2], [2, 3], [4]]"}, {"dictionary": '"gtransnet"'}
    for match, expected in [("[2, 3]", {(2, 3)}), ("[[2], [4]]", {(2,), (4,)})]:
        study = load(toml(axes=axes, constants=constants, extra=when(f"{{ hidden = {match} }}", "{ tau = 0.5 }")))
        assert {c.values["hidden"] for c in cases(study) if c.values["tau"] == 0.5} == expected


def test_a_rule_applies_to_the_value_it_names_and_not_to_one_that_compares_equal(load):
    study = load(own_method("width = [1, true]") + when("{ width = true }", "{ depth = 9 }"), own=OWN)
    assert [(c.values["width"], c.values["depth"]) for c in cases(study) if c.values["seed"] == 0] == [
        (1, 2),
        (True, 9),
    ]


# --- files of the user's own that cannot be used ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "default", ["np.zeros(3)", "np.array(3.7)", "[[[]]]", "nested", "object", "lambda: 0", "{}", "1j"]
)
def test_a_default_may_be_anything_at_all(load, default):
    """A default that no study file could hold is the function's own business."""
    source = f"import numpy as np\nnested = []\nnested.append(nested)\ndef f(seed, extra={default}): return {{}}"
    assert load(own_method(), own=source).space.size == 2


@pytest.mark.parametrize("key", ["method", "problem"])
@pytest.mark.parametrize("reference", ["pipe.py:f", "zero.py:f", "folder.py:f", "loop.py:f", "x" * 5000 + ".py:f"])
def test_a_reference_to_a_file_that_cannot_be_read(refusal, tmp_path, key, reference):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    assert "must" in refusal(toml({key: f'"{reference}"'}, problem=None), own=OWN)


# --- files that cannot be read ----------------------------------------------------------------------------------------


UNREADABLE = {
    "gone.toml": (None, "No such file or directory"),
    "folder.toml": ("folder", "it is a folder, a pipe or a device"),
    "file/s.toml": (None, "Not a directory"),
    "hdf5.toml": (b"\x89HDF\r\n\x1a\n\xff\xfe", "it is no text"),
    "latin.toml": (b'name = "\xe4"', "it is no text"),
    "utf16.toml": (b"\xff\xfen\0a\0", "it is no text"),
    os.fsdecode(b"\xff.toml"): (toml().encode(), "\\udcff.toml': its name must be UTF-8. Rename it"),
    "a\0b.toml": (None, ""),
    "x" * 5000: (None, ""),
}


@pytest.mark.parametrize("name", UNREADABLE, ids=ascii)
def test_a_file_that_cannot_be_read(tmp_path, name):
    (tmp_path / "file").write_text("")
    content, reason = UNREADABLE[name]
    if content == "folder":
        (tmp_path / name).mkdir()
    elif content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(StudyError, match="cannot read the study file") as caught:
        Study.from_file(tmp_path / name)
    assert len(str(caught.value).splitlines()) == 1
    assert str(caught.value).endswith(reason)


def test_a_byte_order_mark_is_no_part_of_a_file(own_study, tmp_path):
    """Editors of some systems write one."""
    study = own_study("def method(seed):\n    return {}\n", "[axes]\nseed = [0]\n")
    for name in ("own.toml", "method.py"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + (tmp_path / name).read_bytes())
    marked = Study.from_file(tmp_path / "own.toml")
    assert (marked.text, plan_study(marked)[-1].keys.tolist()) == (study.text, plan_study(study)[-1].keys.tolist())
    assert marked.method.parameters.keys() == {"seed"}


# --- files that would occupy the machine ------------------------------------------------------------------------------

# Each is loaded in a process of its own with 6 seconds of processor time and 3 GiB of memory.  The longest, of many
# rules, took 1.6 to 2.4 s by itself on the slowest machine so far, and more than 3 s beside other tests.  A study or a
# StudyError is right; anything else, or being stopped, is not.
SECONDS, GIBIBYTES = 6, 3

HEAVY = {
    "many assembly points": toml(constants={"quadrature": "20000"}),
    "most assembly points": toml(constants={"quadrature": "100000"}),
    "many nodes in space": toml(
        constants={"quadrature": '{ rule = "composite_midpoint", points = 100000 }'},
        problem={"dimension": "3", "exact": '"sin(pi*x)*sin(pi*y)*sin(pi*z)"'},
    ),
    "many steps": toml(constants={"dt": "1e-10"}),
    "many steps of a changing diffusion": toml(constants={"dt": "1e-7"}, problem={**PROBLEM, "diffusion": '"1 + t"'}),
    "many saved times": toml(constants={"dt": "1e-9"}, output={"times": "999999999", "record": '["error_history"]'}),
    "powers of powers": toml(problem={**PROBLEM, "exact": '"9**(9**(9*x/x))*x"'}),
    "powers by logarithms": toml(problem={**PROBLEM, "exact": '"exp(1e30*log(3)*x/x)*x"'}),
    "terms of a power": toml(problem={**PROBLEM, "exact": '"x*(1-x)*exp(1e11*log(x+t))"'}),
    "many rules": toml(
        axes={"seed": "{ count = 1200 }", "N": "{ start = 1, count = 1200 }"},
        constants={"N": None},
        extra=when(f"{{ seed = {list(range(1199))}, N = {list(range(1, 1200))} }}", "{ tau = 0.5 }"),
    ),
}


LOAD = """
import os, resource, sys
from evogt_study.errors import StudyError
from evogt_study.study.study import Study

resource.setrlimit(resource.RLIMIT_AS, (GIBIBYTES << 30, GIBIBYTES << 30))
used = sum(os.times()[:2])
resource.setrlimit(resource.RLIMIT_CPU, (SECONDS + int(used) + 1,) * 2)
try:
    Study.from_text(sys.stdin.read(), "s.toml")
except StudyError:
    pass
"""


@pytest.mark.long
@pytest.mark.parametrize("name", HEAVY)
def test_a_study_that_would_occupy_the_machine_is_read_or_refused_at_once(name):
    source = LOAD.replace("GIBIBYTES", str(GIBIBYTES)).replace("SECONDS", str(SECONDS))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # each thread's buffers count against the memory
    subprocess.run([sys.executable, "-c", source], input=HEAVY[name], env=environment, text=True, check=True)


@pytest.mark.parametrize("stem", ["volume", "two_words"])
def test_a_study_file_without_a_name_has_its_own(stem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "method.py").write_text("def compute(p):\n    return {'half': p / 2}\n")
    (tmp_path / f"{stem}.toml").write_text('# first line\nmethod = "method.py:compute"\n[axes]\np = [1.0, 3.0]\n')
    with pytest.raises(SystemExit, match="0"):
        main(["run", f"{stem}.toml", "--workers", "0"])
    with pytest.raises(SystemExit, match="0"):
        main(["status", f"{stem}.toml"])
    with evs.open(f"results/{stem}.nc") as ds:
        assert ds.half.values.tolist() == [0.5, 1.5]
    assert evs.Study.from_file(f"{stem}.toml").name == stem
