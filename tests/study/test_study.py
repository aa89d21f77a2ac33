"""The loader: what a study file may say, what identifies its cases, and the one line for every mistake in it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import read_table
from test_refusals import BASES, change

import evogt_study as evs
from evogt_study.cli.main import main
from evogt_study.errors import StudyError
from evogt_study.pde.problems import BUILT_IN
from evogt_study.study.designs import DESIGN_SECTIONS, StatedDesign
from evogt_study.study.model import read_toml, write_toml
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study

STUDIES = Path(__file__).parents[2] / "studies"

TABLE = read_table(__file__)
OWN = "def f(seed, width, depth=2, name='x', scale=None):\n    return {'error': float(seed)}\n"
OWN_METHOD = 'name = "own"\nmethod = "own.py:f"\n[axes]\nseed = [0, 1]\nwidth = [1, true]\n'
FACTORY = """
from evogt_study.pde import FormulaProblem

def heat(k, nu=0.5):
    return FormulaProblem(1, exact="exp(-t)*sin(a*pi*x)", diffusion="b")(a=k, b=nu)

waves = FormulaProblem(1, exact="exp(-t)*sin(m*pi*x)")
"""
PILOT = '[pilot]\nparameter = "{}"\nseeds = [7, 8]\nby = []\ncandidates = {}\n'


def tiny(*changes):
    """The study `pde` of refusal_bases.toml with these changes."""
    return change(BASES["bases"]["pde"], "\n".join(changes))


@pytest.fixture
def load(tmp_path):
    """Writes a study file, and `own.py` beside it, and reads it."""

    def read(text, own=OWN):
        (tmp_path / "own.py").write_text(own)
        (tmp_path / "tiny.toml").write_text(text)
        return Study.from_file(tmp_path / "tiny.toml")

    return read


@pytest.fixture
def refusal(load, tmp_path):
    """Reads a study that must be refused; the message, checked to be one line that names the file."""

    def read(text, own=OWN):
        with pytest.raises(StudyError) as caught:
            load(text, own)
        message = str(caught.value)
        assert (len(message.splitlines()), len(message) < 1000) == (1, True)
        assert str(tmp_path / "tiny.toml") in message
        return message

    return read


def cases(study):
    """The cases of a study in the order of its axes."""
    return sorted(plan_study(study)[-1].cases(), key=lambda case: case.index)


def keys(study):
    return [case.key for case in cases(study)]


# --- studies that are read --------------------------------------------------------------------------------------------

# without a study whose program has to be compiled first
READABLE = sorted(path for path in STUDIES.rglob("*.toml") if not path.with_suffix(".c").exists())
LONG = "allen_cahn_1d kuramoto_sivashinsky brusselator gray_scott oscillatory_1d_seeds heat_multiscale"


@pytest.mark.parametrize(
    "path", [pytest.param(each, marks=pytest.mark.long if each.stem in LONG else (), id=each.stem) for each in READABLE]
)
def test_every_study_of_the_repository_is_the_same_in_toml_in_python_and_in_a_written_file(path, tmp_path, monkeypatch):
    study = Study.from_file(path)
    assert (study.name, study.file, study.space.size > 0) == (path.stem, str(path), True)
    # the content of files that tables name comes after it
    assert study.text.split("\n# what the files of [[table]] held")[0] == path.read_text()
    assert read_toml(write_toml(study.model.given), "text") == study.model
    monkeypatch.chdir(path.parent)
    given = study.model.given
    designs = [StatedDesign(section, each) for section in DESIGN_SECTIONS for each in given.pop(section, [])]
    given.pop("table_files", None)
    in_python = Study(**given, designs=designs, common=given.pop("random", {}).get("common"))
    written = Study.from_file(in_python.to_file(tmp_path / path.name))
    for other in (in_python, written):
        assert other.axes == study.axes
        assert [plan.keys.tolist() for plan in plan_study(other)] == [plan.keys.tolist() for plan in plan_study(study)]


def test_the_pilot_may_choose_a_parameter_that_has_a_default(load):
    study = load(tiny(PILOT.format("tau", [1e-12, 1e-6])))
    assert {case.values["tau"] for case in plan_study(study)[0].cases()} == {1e-12, 1e-6}


def test_a_problem_from_a_factory_and_from_a_statement_in_a_python_file(load):
    made = load(tiny('problem = "own.py:heat"', "- [problem]", "[axes]", "k = [1, 2]"), FACTORY)
    assert made.space.constants["nu"] == 0.5
    stated = load(tiny('problem = "own.py:waves"', "- [problem]", "[axes]", "m = [1, 2]"), FACTORY)
    assert stated.space.names == ("seed", "m")


def test_python_files_are_found_from_the_study_files_folder(tmp_path, monkeypatch):
    folder = tmp_path / "deep" / "folder"
    folder.mkdir(parents=True)
    (folder.parent / "own.py").write_text("def f(seed): return {'error': 0.0}")
    (folder / "s.toml").write_text('name = "s"\nmethod = "../own.py:f"\n[axes]\nseed = [0]\n')
    monkeypatch.chdir(tmp_path)
    assert Study.from_file("deep/folder/s.toml").space.size == 1


# --- what identifies a case -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLE["same"])
def test_the_same_computation_has_the_same_keys(load, name):
    known = BUILT_IN["oscillatory_1d"]
    first, second = (each.replace("EXACT", known.exact) for each in TABLE["same"][name])
    assert keys(load(tiny(first))) == keys(load(tiny(second.replace("DIFFUSION", known.diffusion))))


def test_the_pilots_choice_or_a_constant_is_the_same(load):
    study = load(tiny("[constants]", "- gamma", PILOT.format("gamma", [2, 4])))
    chosen = [case.key for case in plan_study(study)[-1].cases()]
    assert chosen == keys(load(tiny("[constants]", "gamma = 2")))


def test_every_parameter_that_matters_changes_the_key():
    found = {name: keys(Study.from_text(tiny(text)))[0] for name, text in TABLE["other"].items()}
    owners = {}
    for name, key in found.items():
        owners.setdefault(key, []).append(name)
    assert [names for names in owners.values() if len(names) > 1] == []


# --- studies that are refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run_status", "error", "run_pilot", "string5", "k" * 241])
def test_a_default_of_a_problems_factory_is_refused_under_a_name_of_the_result_file(refusal, name):
    """It becomes a constant of the study, which the file holds too."""
    own = FACTORY.replace("nu=0.5", f"nu=0.5, {name}=1")
    message = refusal(tiny('problem = "own.py:heat"', "- [problem]", "[axes]", "k = [1, 2]"), own)
    assert f"the parameter `{name}` must have another name" in message
    assert f"constants.{name}" in message


@pytest.mark.parametrize(
    ("final_time", "dt"), [("1", "0.4"), ("1", "0.3"), ("0.7", "0.3"), ("0.25", "0.0033"), ("2", "1.3")]
)
def test_the_time_step_that_the_message_advises_is_one_that_fits(load, refusal, final_time, dt):
    changes = "[constants]", f"final_time = {final_time}"
    advice = re.search(r"Use e\.g\. ([\d.e+-]+)", refusal(tiny(*changes, f"dt = {dt}"))).group(1)
    assert load(tiny(*changes, f"dt = {float(advice)!r}")).space.size == 2


@pytest.mark.parametrize(
    ("axis", "constants", "match", "matched"),
    [
        ("gamma = [4, 6, 8]", "- gamma", "[4, 6]", {4.0, 6.0}),  # two values, although gamma may itself be a list
        ("hidden = [[2], [2, 3], [4]]", 'dictionary = "gtransnet"', "[2, 3]", {(2, 3)}),
        ("hidden = [[2], [2, 3], [4]]", 'dictionary = "gtransnet"', "[[2], [4]]", {(2,), (4,)}),
    ],
)
def test_a_rule_matches_one_value_or_several(load, axis, constants, match, matched):
    name = axis.split()[0]
    rule = f"[[when]]\nmatch = {{ {name} = {match} }}\nset = {{ tau = 0.5 }}"
    study = load(tiny("[axes]", axis, "[constants]", constants, rule))
    assert {case.values[name] for case in cases(study) if case.values["tau"] == 0.5} == matched


def test_a_rule_applies_to_the_value_it_names_and_not_to_one_that_compares_equal(load):
    study = load(f"{OWN_METHOD}[[when]]\nmatch = {{ width = true }}\nset = {{ depth = 9 }}\n")
    found = [(case.values["width"], case.values["depth"]) for case in cases(study) if case.values["seed"] == 0]
    assert found == [(1, 2), (True, 9)]


# --- files of the user's own that cannot be used ----------------------------------------------------------------------


@pytest.mark.parametrize("default", ["np.zeros(3)", "[[[]]]", "nested", "object", "lambda: 0", "{}", "1j"])
def test_a_default_may_be_anything_at_all(load, default):
    """A default that no study file could hold is the function's own business."""
    source = f"import numpy as np\nnested = []\nnested.append(nested)\ndef f(seed, width, extra={default}): return {{}}"
    assert load(OWN_METHOD, source).space.size == 4


@pytest.mark.parametrize("key", ["method", "problem"])
@pytest.mark.parametrize("reference", ["pipe.py:f", "zero.py:f", "folder.py:f", "loop.py:f", "x" * 5000 + ".py:f"])
def test_a_reference_to_a_file_that_cannot_be_read(refusal, tmp_path, key, reference):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    assert "must" in refusal(tiny(f'{key} = "{reference}"', "- [problem]"))


# --- files that cannot be read ----------------------------------------------------------------------------------------

UNREADABLE = {
    "gone.toml": (None, "No such file or directory"),
    "folder.toml": ("folder", "it is a folder, a pipe or a device"),
    "file/s.toml": (None, "Not a directory"),
    "hdf5.toml": (b"\x89HDF\r\n\x1a\n\xff\xfe", "it is no text"),
    "latin.toml": (b'name = "\xe4"', "it is no text"),
    "utf16.toml": (b"\xff\xfen\0a\0", "it is no text"),
    os.fsdecode(b"\xff.toml"): (tiny().encode(), "\\udcff.toml': its name must be UTF-8. Rename it"),
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
@pytest.mark.parametrize("name", TABLE["heavy"])
def test_a_study_that_would_occupy_the_machine_is_read_or_refused_at_once(name):
    text = tiny(TABLE["heavy"][name]).replace("FROM_0_TO_1198", str([*range(1199)]))
    text = text.replace("FROM_1_TO_1199", str([*range(1, 1200)]))
    source = LOAD.replace("GIBIBYTES", str(GIBIBYTES)).replace("SECONDS", str(SECONDS))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # each thread's buffers count against the memory
    subprocess.run([sys.executable, "-c", source], input=text, env=environment, text=True, check=True)


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
