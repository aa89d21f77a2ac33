"""The command line: what it prints, and that a mistake costs one line, exit code 2 and nothing on the disk."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr
from helpers import read_study, rewritten

from evogt_study.cli.main import main
from evogt_study.results.dataset import SCHEMA_VERSION, dataset, global_attributes
from evogt_study.results.finished import describe
from evogt_study.results.netcdf import write_result
from evogt_study.results.shards import shard_folder, write_shard
from evogt_study.results.table import RunTable
from evogt_study.study.plan import study_plan
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here

COMMAND = Path(sys.executable).with_name("evogt")  # as installed where the tests run
PAPER = Path(__file__).parents[2] / "studies" / "paper"

OWN = """
def method(family, epsilon, seed):
    assert seed != 2 or family != 'b', 'no luck'
    return {'error': epsilon * (1 + seed) if seed != 3 else float('nan'), 'rank': 7, 'word': family}
"""
STUDY = """name = "own"
method = "own.py:method"
[axes]
family = ["a", "b"]
epsilon = [0.2, 0.1]
seed = { count = 3 }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An otherwise empty folder to work in, with a study of twelve runs of which two fail."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "own.toml").write_text(STUDY)
    return tmp_path


def listing(folder):
    """Every file and folder below, with the content of files; Python's caches of imported files are no matter."""
    paths = (path for path in sorted(folder.rglob("*")) if "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


@pytest.fixture
def refused(evogt, folder):
    """Calls the command line with a mistake; the one line it prints."""

    def call(*arguments):
        before = listing(folder)
        code, out, err = evogt(*arguments)
        assert (code, out) == (2, ""), err
        assert err.startswith("evogt: ")
        assert err.endswith("\n")
        assert len(err.splitlines()) == 1
        assert "Traceback" not in err
        assert listing(folder) == before
        return err

    return call


def write(path, text=STUDY, attributes=None):
    """The result of a study as `evogt run` writes it, computed here instead of on workers."""
    study = Study.from_text(text, str(path.parent / "own.toml"))
    plan = study_plan(study)
    table = RunTable(plan)
    table.add(compute_here(Batch.of(plan.spec, list(plan.cases()))))
    data = dataset(table, study)
    data.attrs = {**global_attributes(study, "main"), **data.attrs, **(attributes or {})}
    write_result(path, {"main": data})
    return path


@pytest.fixture
def result(folder):
    return write(folder / "own.nc")


# --- mistakes in the study --------------------------------------------------------------------------------------------

BAD_STUDIES = {
    "no TOML": ("name = ", ["must be TOML"]),
    "unknown key": (STUDY + "[pilto]\n", ["unknown key `pilto`", "Did you mean `pilot`?"]),
    "unknown parameter": (STUDY + "[constants]\ngamma = 1\n", ["unknown parameter `gamma`"]),
    "missing parameter": (STUDY.replace('family = ["a", "b"]\n', ""), ["`family` must be given"]),
    "value twice": (STUDY.replace("[0.2, 0.1]", "[0.3, 0.30]"), ["`epsilon` must have different values"]),
    "not finite": (STUDY.replace("[0.2, 0.1]", "[0.2, nan]"), ["`epsilon` must be a value other than nan"]),
    "no such file": (STUDY.replace("own.py", "gone.py"), ["gone.py"]),
    "no such function": (STUDY.replace(":method", ":methd"), ["has no `methd`"]),
    "key of two lines": ('"a\\nb" = 1\n' + STUDY, ["unknown key `a b`"]),
    "tau out of range": (
        'name = "t"\nproblem = "oscillatory_1d"\n[axes]\nseed = [0]\n[constants]\ntau = 2.0\n',
        ["`tau` must be in (0, 1), got 2.0", "constants.tau", "use e.g. 1e-12"],
    ),
}


@pytest.mark.parametrize("command", ["run", "run -n", "try"])  # `status` does not execute the function
@pytest.mark.parametrize("name", BAD_STUDIES)
def test_a_mistake_in_the_study(refused, folder, command, name):
    text, fragments = BAD_STUDIES[name]
    (folder / "bad.toml").write_text(text)
    line = refused(*command.split(), "bad.toml")
    assert "bad.toml" in line
    for fragment in fragments:
        assert fragment in line


@pytest.mark.parametrize("command", ["run", "run -n", "status"])
@pytest.mark.parametrize("path", ["gone.toml", "folder.toml", "binary.toml", "own.py/s.toml"])
def test_a_study_file_that_cannot_be_read(refused, folder, command, path):
    (folder / "folder.toml").mkdir()
    (folder / "binary.toml").write_bytes(bytes(range(256)))
    line = refused(*command.split(), path)
    assert "cannot read the study file" in line
    assert path in line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run own.nc", "the study file own.nc: it is no text; a result is read by `evogt status`, `summary`, `plot`"),
        ("run own.py", "; a script is run by `python`, and a function in it by a study file with `method = "),
        ("summary own.toml", "cannot read own.toml as NetCDF: it is no such file; `evogt run` takes a study file, and"),
        ("verify own.toml", "cannot read own.toml as NetCDF: it is no such file; `evogt run` takes a study file, and"),
        ("summary own.py", "cannot read own.py as NetCDF: it is no such file; a script is run by `python`"),
        ("summary ..", "cannot read .. as NetCDF: it is a folder"),
    ],
)
def test_a_file_that_another_command_takes(refused, folder, result, words, said):
    assert said in refused(*words.split())


# --- mistakes in the place of the result ------------------------------------------------------------------------------


def test_a_failure_of_the_system_is_a_line_without_a_traceback(refused):
    for command in (["run", "-n"], ["status"]):
        assert "File name too long" in refused(*command, "own.toml", "-o", "x" * 300 + ".nc")


@pytest.mark.parametrize("place", ["own.py/own.nc", "own.py/deep/er/own.nc", "x" * 300 + ".nc", "new/" + "x" * 300])
def test_a_place_that_cannot_be_written(refused, place):
    line = refused("run", "own.toml", "-o", place)
    assert f"cannot write {place}" in line
    assert "-o" in line


@pytest.mark.parametrize("place", ["taken", ".", "..", "/", "taken/", ""])
def test_a_folder_in_place_of_the_result(refused, folder, place):
    (folder / "taken").mkdir()
    assert "folder" in refused("run", "own.toml", "-o", place)


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\x89HDF\r\n\x1a\n" + bytes(100), b"CDF\x01" + bytes(50)])
def test_a_file_that_is_no_netcdf_in_the_way(refused, folder, content):
    (folder / "own.nc").write_bytes(content)
    line = refused("run", "own.toml", "-o", "own.nc")
    assert "own.nc" in line
    assert "Choose another file with -o." in line


def tampered(path, change):
    """A result edited by another program, which knows nothing of its digests."""
    with netCDF4.Dataset(path, "a") as file:
        change(file)
    return path


def set_all(name, value):
    def change(file):
        file[name][:] = value

    return change


def set_attribute(name, value, variable=None):
    def change(file):
        (file if variable is None else file[variable]).setncattr(name, value)

    return change


TAMPERED = {
    "a number": (set_all("error", 7.0), "`error` is not as it was written"),
    "a number made missing": (set_all("error", np.nan), "`error` is not as it was written"),
    "words": (lambda file: file.renameVariable("word", "wort"), "`word` is not as it was written"),
    "a renamed variable": (lambda file: file.renameVariable("error", "eror"), "`eror` is not as it was written"),
}
UNSOUND = {
    "a status that is none": (set_all("run_status", 99), "`run_status` must be one of 0, 1, 2, 3, 4, 5, got 99"),
    "a negative status": (set_all("run_status", -3), "got -3"),
    "software that is none": (
        set_all("run_software", 7),
        "`run_software` must be an index into its 1 software_sets, got 7",
    ),
    "negative software": (set_all("run_software", -5), "got -5"),
    "no table of software": (
        set_attribute("software_sets", "nonsense", "run_software"),
        "in the attribute software_sets",
    ),
    "an empty table": (set_attribute("software_sets", "[]", "run_software"), "index into its 0 software_sets"),
    "another table": (set_attribute("software_sets", '{"a": 1}', "run_software"), "in the attribute software_sets"),
    "a table of numbers": (set_attribute("software_sets", "[1]", "run_software"), "in the attribute software_sets"),
    "coordinates that are none": (
        set_attribute("recorded_coordinates", "error nothere"),
        "`recorded_coordinates` must name coordinates, got error",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "name"), [*(("run", name) for name in UNSOUND), *(("merge", name) for name in TAMPERED)]
)
def test_runs_that_are_not_what_was_written_are_not_taken_up(refused, folder, result, command, name):
    """A new result would vouch for them with digests of its own."""
    change, said = {**TAMPERED, **UNSOUND}[name]
    other = write(folder / "other.nc", STUDY.replace("count = 3", "count = 2"))
    tampered(result, change)
    arguments = {"run": ["own.toml", "-o", "own.nc"], "merge": [other, result, "-o", "new.nc"]}[command]
    line = refused(command, *arguments)
    assert said in line
    assert "own.nc" in line


@pytest.mark.long
@pytest.mark.parametrize("name", TAMPERED)
def test_a_command_says_that_it_uses_changed_runs(evogt, result, name):
    """The user names the result, so another program may have changed it on purpose."""
    change, said = TAMPERED[name]
    tampered(result, change)
    code, _, err = evogt("run", "own.toml", "-o", "own.nc")
    assert code == 0
    assert said in err
    assert "Its runs are used as they are now" in err


@pytest.mark.parametrize("name", ["a status that is none", "no table of software"])
@pytest.mark.parametrize("command", ["status", "summary", "export", "plot", "report", "try"])
def test_a_result_whose_bookkeeping_has_no_meaning(refused, result, command, name):
    change, said = UNSOUND[name]
    tampered(result, change)
    more = {"export": ["-o", "runs.csv"]}.get(command, [])
    assert said in refused(command, "own.nc", *more)


@pytest.mark.long
@pytest.mark.parametrize("name", [*TAMPERED, *UNSOUND])
def test_verify_tells_what_was_tampered_with(evogt, result, name):
    change, said = {**TAMPERED, **UNSOUND}[name]
    tampered(result, change)
    code, out, err = evogt("verify", "own.nc")
    assert (code, err) == (1, "")
    assert said in out


def test_a_file_in_place_of_the_shards(refused, folder):
    (folder / "own.nc.shards").write_text("x")
    assert "own.nc.shards" in refused("run", "own.toml", "-o", "own.nc")


def test_a_link_in_a_circle_or_to_a_disk_that_is_not_there(refused, folder):
    (folder / "circle.nc").symlink_to("circle.nc")
    (folder / "away.nc").symlink_to(folder / "disk" / "away.nc")
    for name in ("circle.nc", "away.nc"):
        line = refused("run", "own.toml", "-o", name)
        assert f"cannot write {name}: it is a link to " in line


OF_A_RESULT = {"study": "", "id": "own", "result_schema": SCHEMA_VERSION}
LOOKALIKES = {
    "another package's file": xr.Dataset({"temperature": ("x", [1.0])}),
    "some of a result": xr.Dataset({"run_key": ("seed", ["a"])}, attrs=OF_A_RESULT),
    "a result without its bookkeeping": xr.Dataset(
        {"run_key": ("seed", ["a"]), "run_status": ("seed", [1]), "error": ("seed", [1.0])}, attrs=OF_A_RESULT
    ),
}


@pytest.mark.parametrize("name", LOOKALIKES)
def test_another_netcdf_file_in_the_way(refused, folder, name):
    LOOKALIKES[name].to_netcdf(folder / "own.nc", engine="netcdf4")
    assert "own.nc" in refused("run", "own.toml", "-o", "own.nc")


def test_a_result_of_another_study_in_the_way(refused, folder):
    write(folder / "own.nc", STUDY.replace('"own"', '"other"'))
    line = refused("run", "own.toml", "-o", "own.nc")
    assert "own.nc is the result of the study 'other', not of 'own'" in line
    assert "hoose another file with -o" in line


def test_a_result_with_runs_that_the_study_does_not_ask_for(evogt, folder, result, no_workers):
    """Removing a value from an axis must not throw its runs away."""
    (folder / "own.toml").write_text(STUDY.replace("count = 3", "count = 2"))
    assert evogt("run", "-q", "own.toml", "-o", "own.nc") == (
        0,
        "own.nc: 8 runs, 8 ok\n",
        "evogt: moved 4 finished runs to own.nc.store because the study no longer includes them "
        "(axes.seed.count: 3 -> 2). See `evogt store list`.\n",
    )


# --- mistakes in options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ("--workers", "2", "--scheduler", "tcp://127.0.0.1:1"),
        ("--workers", "2", "--scheduler-file", "s.json"),
        ("--scheduler", "tcp://127.0.0.1:1", "--scheduler-file", "s.json"),
    ],
)
def test_workers_and_schedulers_are_not_combined(refused, options):
    assert "must not be combined" in refused("run", "own.toml", *options)


@pytest.mark.parametrize(
    ("name", "reason"), [("gone.json", "No such file"), ("pipe", "it is a folder, a pipe or a device")]
)
def test_a_scheduler_file_that_is_no_file(refused, folder, name, reason):
    """Nothing waits for the other end of a pipe."""
    os.mkfifo(folder / "pipe")
    assert f"got {name}: {reason}" in refused("run", "own.toml", "--scheduler-file", name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--scheduler", "nonsense"),
        ("--scheduler", "http://127.0.0.1:1"),
        ("--scheduler", "tls://127.0.0.1:1"),  # there are no certificates
        ("--scheduler-file", "s.json"),
    ],
)
def test_a_scheduler_that_cannot_be_one(folder, option, value):
    """In a process of its own: a connection that was begun must neither delay its end nor have more to say then."""
    (folder / "s.json").write_text("no JSON")
    before = listing(folder)
    done = subprocess.run([COMMAND, "run", "own.toml", option, value], capture_output=True, text=True, timeout=10)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"evogt: `{option}` must be the ")
    assert value in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert listing(folder) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run",), "Missing argument 'STUDY.toml'"),
        (("run", "own.toml", "--workers", "many"), "--workers"),
        (("run", "own.toml", "--worker", "2"), "--workers"),
        (("runn", "own.toml"), "No such command 'runn'"),
        (("status", "own.toml", "own.toml"), "unexpected extra argument"),
    ],
)
def test_mistyped_options_are_answered_by_the_usage(evogt, folder, arguments, said):
    before = listing(folder)
    code, out, err = evogt(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.startswith("Usage: evogt")
    assert listing(folder) == before


@pytest.mark.parametrize("limit", ["nan", "inf", "-inf", "0", "-1"])
def test_what_is_no_time_limit_of_a_run(refused, no_workers, limit):
    line = refused("run", "own.toml", "--run-timeout", limit)
    assert "`run_timeout` (--run-timeout) must be a finite number of seconds > 0, got " in line


@pytest.mark.long
def test_a_time_limit_of_centuries_is_none(folder):
    command = [COMMAND, "run", "own.toml", "-q", "--workers", "1", "--run-timeout", "1e10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)  # what workers print is seen here only
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("results/own.nc: 12 runs, 10 ok, 2 failed\n")


# --- mistakes in questions about results ------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["status", "summary", "try", "verify"])
@pytest.mark.parametrize("path", ["gone.nc", "own.py", "taken", "own.py/gone.nc"])
def test_a_result_that_cannot_be_read(refused, folder, command, path):
    (folder / "taken").mkdir()
    assert path in refused(command, path)


def test_the_status_of_a_study_that_has_not_run(refused):
    line = refused("status", "own.toml")
    assert "results/own.nc, which does not exist" in line
    assert "`evogt run` makes it" in line


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--over", "sed"), ["`over` must name dimensions of error (family, epsilon, seed)", "got sed"]),
        (("--over", "seed,tau"), ["`over` must name dimensions", "got tau"]),
        (("--over", ""), ["`over` must name dimensions of error"]),
        (("--over", ","), ["`over` must name dimensions of error"]),
        (("--variable", "eror"), ["`variable` must be one of error, ", "got 'eror'. Did you mean error?"]),
        (("--variable", "seed"), ["`variable` must be one of", "got 'seed'"]),
        (("--variable", "word"), ["`word` must hold numbers"]),
        (("--variable", "run_message"), ["`run_message` must hold numbers"]),
        (("--variable", "run_key"), ["`run_key` must hold numbers"]),
        (("--format", "html"), ["`format` must be one of text, markdown, latex, csv", "got 'html'"]),
        (
            ("--statistic", "avg"),
            ["`statistic` must be one of mean, std, median, geometric_mean, min, max, a quantile", "'avg'"],
        ),
        (("--rows", "gamma"), ["`rows` and `columns` must be of family, epsilon, got gamma"]),
        (("--rows", "family"), ["must name each of family, epsilon once, got family; epsilon is left out"]),
        (("--columns", "seed"), ["`rows` and `columns` must be of family, epsilon, got seed"]),
        (("--columns", "family", "--ratio", "a/c"), ["`family` must be one of a, b, got 'c'"]),
        (("--columns", "family", "--ratio", "a"), ["`ratio` must be first/second", "got 'a'"]),
        (("--ratio", "a/b"), ["`ratio` must be first/second, two values of one axis across"]),
        (("--at", "family=c"), ["`family` must be one of a, b, got 'c'"]),
        (("--at", "tau=1"), ["`at` must name axes (family, epsilon, seed), got tau"]),
        (("--at", "family"), ["`--at` must read axis=value,axis=value, got 'family'"]),
        (("--digits", "0"), ["`digits` must be from 1 to 17, got 0"]),
        (("--notation", "e"), ["`notation` must be one of auto, scientific, plain, got 'e'"]),
        (
            ("--interval", "normal"),
            ["`method` must be one of bootstrap-t, student, order, percentile, bonett, got 'normal'"],
        ),
        (("--confidence", "95"), ["`confidence` must be in (0, 1), got 95.0; use e.g. 0.95"]),
        (("--missing", "skip"), ["`missing` must be one of warn, raise, drop, got 'skip'"]),
        (("--pilot",), ["own.nc must have pilot runs, got a result without them"]),
    ],
)
def test_a_question_that_has_no_answer(refused, result, options, fragments):
    line = refused("summary", "own.nc", *options)
    for fragment in fragments:
        assert fragment in line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "`error` has no seed axis; name axes with --over: family, none"),
        (("--at", "family=a"), "`error` has no seed axis left; name axes with --over: none"),
        (("--over", ""), "`over` must name dimensions of error (family), got no name"),
    ],
)
def test_a_summary_without_seeds(refused, folder, options, said):
    write(folder / "own.nc", STUDY.replace("seed = { count = 3 }", "").replace("epsilon = [0.2, 0.1]", CONSTANTS))
    assert said in refused("summary", "own.nc", *options)


CONSTANTS = "[constants]\nseed = 0\nepsilon = 0.1"


def test_a_summary_without_error(evogt, refused, folder):
    """It is of the first variable of the user.  Variables that can be named have numbers."""
    (folder / "own.py").write_text("def method(family, epsilon, seed):\n    return {'cost': 1.0, 'word': family}\n")
    write(folder / "own.nc")
    code, out, _ = evogt("summary", "own.nc", "--columns", "family", "--statistic", "mean,ci", "--digits", "3")
    assert (code, out.splitlines()[2].split("  ")[-1].strip()) == (0, "1.00 [0.439, 1.00]")
    said = refused("summary", "own.nc", "--variable", "costs")
    assert said == "evogt: `variable` must be one of cost, got 'costs'. Did you mean cost?\n"


def test_a_picture_of_a_result_of_arrays_alone(refused, folder):
    (folder / "own.py").write_text(
        "def method(family, epsilon, seed):\n    return {'map': (('i', 'j'), [[1.0, 2.0], [3.0, 4.0]])}\n"
    )
    write(folder / "own.nc")
    said = refused("plot", "own.nc")
    assert "must hold a number for each run to draw a distribution, got arrays alone (map over i, j)" in said


@pytest.fixture
def begun(folder):
    """The shards of half of the study's runs, as a killed command leaves them: `new.nc` is not written."""
    study = Study.from_file(folder / "own.toml")
    describe(folder / "new.nc", study)
    plan = study_plan(study)
    write_shard(shard_folder(folder / "new.nc"), compute_here(Batch.of(plan.spec, list(plan.cases())[6:])))
    return folder / "new.nc"


def test_a_run_of_a_result_that_is_not_finished_is_repeated(evogt, begun):
    code, out, err = evogt("try", "new.nc", "family=b", "seed=1")
    assert (code, "equal bit for bit" in out) == (0, True)
    assert err == "evogt: new.nc is not finished. These are its runs so far.\n"
    code, out, err = evogt("try", "new.nc", "family=b", "seed=2")
    assert (code, "as in the file: failed" in out, "AssertionError: no luck" in err) == (0, True, True)
    code, out, _ = evogt("try", "new.nc")
    assert (code, "in the file: not_run" in out, "now: ok" in out) == (1, True, True)


def test_a_result_that_is_not_finished_is_checked_as_far_as_it_goes(evogt, begun):
    code, out, _ = evogt("verify", "new.nc", "--rerun", "3")
    assert (code, out.count("equal bit for bit")) == (1, 3)
    (found,) = re.findall("wrong: (.*)", out)
    assert found.startswith("main: 6 runs of 12 are not_run; `evogt run` computes them")


def test_what_is_finished_of_a_result_is_merged(evogt, begun, result):
    code, out, _ = evogt("merge", "new.nc", "own.nc", "-o", "joined.nc")
    assert (code, "12 runs, 10 ok, 2 failed" in out) == (0, True)
    assert evogt("verify", "joined.nc")[0] == 0
    (begun.parent / "own.py").write_text(OWN.replace("7", "8"))
    write(begun.parent / "other.nc")
    code, _, err = evogt("merge", "new.nc", "other.nc", "-o", "second.nc")
    assert (code, "new.nc holds 6 runs" in err or "other.nc holds" in err) == (2, True)


@pytest.mark.parametrize("arguments", [("publish", "new.nc"), ("merge", "a=own.nc", "b=new.nc", "--along", "x")])
def test_what_needs_a_whole_result_says_that_one_is_not_finished(refused, begun, result, arguments):
    said = refused(*arguments, "-o", "made")
    assert said == "evogt: new.nc is not finished. Run the missing cases with `evogt run`.\n"


# --- answers ----------------------------------------------------------------------------------------------------------


def test_the_status_of_a_result(evogt, folder, result):
    before = listing(folder)
    code, out, err = evogt("status", "own.nc")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "own.nc (main): 12 runs, 10 ok, 2 failed",
        "  not ok by family: b: 2/6",
        "  not ok by epsilon: 0.2: 1/6, 0.1: 1/6",
        "  not ok by seed: 2: 2/4",
        "  2 x AssertionError: no luck (e.g. family=b, epsilon=0.2, seed=2)",
        "  traceback: evogt try own.nc family=b epsilon=0.2 seed=2",
    ]
    assert listing(folder) == before


def test_the_status_of_a_study_is_that_of_its_result(evogt, folder, result):
    (folder / "results").mkdir()
    shutil.move(result, folder / "results" / "own.nc")
    code, out, _ = evogt("status", "own.toml")
    assert code == 0
    assert out.startswith("results/own.nc (main): 12 runs, 10 ok, 2 failed\n")


def test_the_status_counts_the_runs_of_each_software(evogt, result):
    def older(data):
        (entry,) = json.loads(data.run_software.attrs["software_sets"])
        data.run_software.attrs["software_sets"] = json.dumps([entry, entry | {"numpy": "1.0.0"}])
        data.run_software.values[..., 0] = 1

    code, out, _ = evogt("status", rewritten(result, older))
    assert code == 0
    assert re.search(rf"^  8 runs by .*, numpy {re.escape(np.__version__)}, ", out, re.M)
    assert re.search(r"^  4 runs by .*, numpy 1\.0\.0, ", out, re.M)


def test_a_summary(evogt, folder, result):
    before = listing(folder)
    code, out, err = evogt("summary", "own.nc", "--format", "csv")
    assert code == 0
    lines = [line.split(",") for line in out.splitlines()]
    intervals = ["ci lower", "ci upper", "median", "median_ci lower", "median_ci upper"]
    assert lines[0] == ["family", "epsilon", "mean", "std", *intervals, "n", "note"]
    few = "few seeds: {} (Student's interval)"
    assert {line[-1] for line in lines[1:]} == {few.format(3), f"1 of 3 runs have no value; {few.format(2)}"}
    assert [[*line[:4], line[6], line[9]] for line in lines[1:]] == [
        ["a", "0.2", "0.4000", "0.2000", "0.4000", "3/3"],
        ["a", "0.1", "0.2000", "0.1000", "0.2000", "3/3"],
        ["b", "0.2", "0.3000", "0.1414", "0.3000", "2/3"],
        ["b", "0.1", "0.1500", "0.07071", "0.1500", "2/3"],
    ]
    assert err == "evogt: 2 of 12 runs have no `error`; they are left out, see n_ok\n"
    assert listing(folder) == before


def test_a_summary_as_a_table_with_an_axis_across(evogt, result):
    options = ("--rows", "epsilon", "--columns", "family", "--digits", "2", "--ratio", "b/a")
    code, out, err = evogt("summary", "own.nc", *options)
    assert code == 0
    assert [line.split() for line in out.splitlines()[2:]] == [
        ["0.2", "0.40", "(0.20)", "0.30", "(0.14)", "2/3", "1.0", "2/3"],
        ["0.1", "0.20", "(0.10)", "0.15", "(0.071)", "2/3", "1.0", "2/3"],
        [],
        ["mean", "(std);", "k/n:", "of", "n", "planned", "runs,", "k", "have", "a", "value"],
    ]
    assert err.startswith("evogt: 2 of 12 runs")
    code, out, _ = evogt("summary", "own.nc", *options, "--format", "latex", "--notation", "scientific")
    assert r"0.2 & \meanstd{4.0\times10^{-1}}{2.0\times10^{-1}} & " in out


def test_a_summary_of_chosen_statistics_at_chosen_labels(evogt, result):
    options = ("--statistic", "min,q50,max", "--at", "family=a,epsilon=0.10", "--format", "csv", "--notation", "plain")
    assert evogt("summary", "own.nc", *options) == (0, "min,q50,max,n\n0.1000,0.2000,0.3000,3/3\n", "")


def test_a_summary_of_several_variables(evogt, result):
    options = ("--variable", "error,rank", "--rows", "variable,family,epsilon", "--statistic", "max", "--format", "csv")
    code, out, err = evogt("summary", "own.nc", *options)
    assert code == 0
    assert out.splitlines()[1] == "error,a,0.2,0.6000,3/3"
    assert out.splitlines()[-1] == "rank,b,0.1,7.000,2/3"
    assert len(err.splitlines()) == 2


def test_the_policy_for_missing_runs(evogt, result):
    assert evogt("summary", "own.nc", "--missing", "drop")[2] == ""
    code, out, err = evogt("summary", "own.nc", "--missing", "raise")
    assert (code, out) == (1, "")
    assert err.startswith("evogt: 2 of 12 runs have no `error`; `evogt status` says why")
    assert len(err.splitlines()) == 1


def test_a_summary_imports_nothing_that_it_does_not_need(folder, result):
    """Most of the time that a summary of 100,000 runs takes is imports."""
    heavy = ("sympy", "scipy.stats", "distributed", "pydantic", "matplotlib")
    code = (
        "import sys\nfrom evogt_study.cli.main import main\n"
        "try:\n    main(['summary', 'own.nc', '--missing', 'drop'])\n"
        f"except SystemExit:\n    print([name for name in {heavy} if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    assert shown.stdout.splitlines()[-1] == "[]"


def test_an_export(evogt, refused, folder, result):
    assert evogt("export", "own.nc", "-o", "runs.csv") == (0, "runs.csv: 12 runs\n", "")
    lines = (folder / "runs.csv").read_text().splitlines()
    assert lines[0].startswith("family,epsilon,seed,run_status,run_message,error,rank,word,run_attempts,")
    assert lines[1].startswith("a,0.2,0,ok,,0.2,7,a,1,")
    assert lines[9].startswith("b,0.2,2,failed,AssertionError: no luck,,,,1,")
    (folder / "own.nc.csv").write_text("mine")
    assert "`--output` must be a new file, got own.nc.csv" in refused("export", "own.nc", "-o", "own.nc.csv")
    assert "`--output` must end in .csv, .parquet, .json" in refused("export", "own.nc", "-o", "runs.xlsx")
    assert "no result file gone.nc" in refused("export", "gone.nc", "-o", "other.csv")


# --- one case again, results joined, a result checked ----------------------------------------------------------------


def test_a_case_of_a_result(evogt, folder, result):
    before = listing(folder)
    code, out, err = evogt("try", "own.nc", "epsilon=0.1", "seed=1")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert re.fullmatch(r"family=a, epsilon=0.1, seed=1: ok in \S+ s, run key \w{20}", lines[0])
    assert lines[-1] == "  equal bit for bit: error, rank, word"
    assert listing(folder) == before
    code, out, err = evogt("try", "own.nc", "family=b", "seed=2")
    assert (code, out.splitlines()[-1]) == (0, "  as in the file: failed, AssertionError: no luck")
    assert re.match(r'Traceback .*\n  File ".*own.py", line 3, in method\n', err)
    assert err.endswith("AssertionError: no luck\n")
    (folder / "own.py").write_text(OWN.replace("7", "8"))
    code, out, err = evogt("try", "own.nc", "--code", "own.py")
    assert (code, out, "own.py changed since own.nc was computed, so nothing was executed" in err) == (2, "", True)


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("seed=9", "`seed` must be one of 0, 1, 2 (own.nc), got '9'"),
        ("sed=1", "own.nc has no axis `sed`. Did you mean `seed`?"),
        ("nonsense", "an assignment must be KEY=VALUE, got 'nonsense'"),
    ],
)
def test_a_case_that_a_result_lacks(refused, result, assignment, said):
    assert said in refused("try", "own.nc", assignment)


def test_two_seed_ranges_of_one_study_are_merged(evogt, folder):
    for name, seeds in (("a.nc", "seed=0..1"), ("b.nc", "seed=2..4")):
        code, out, _ = evogt("run", "own.toml", seeds, "family=a,", "-o", name, "-q", "--workers", "0")
        assert (code, ", 4 ok" in out) == (0, True)
    code, out, _ = evogt("merge", "a.nc", "b.nc", "-o", "c.nc")
    assert (code, out.splitlines()[0]) == (0, "c.nc: 10 runs, 8 ok, 2 diverged")
    assert evogt("verify", "c.nc")[0] == 0


def test_merges_that_are_refused(refused, folder, result):
    write(folder / "b.nc", STUDY.replace("{ count = 3 }", "[3]").replace('"own.py', '"./own.py'))
    assert "no file has a study that includes all runs: they differ in [method]" in refused(
        "merge", "own.nc", "b.nc", "-o", "c.nc"
    )
    assert "one of the files to merge" in refused("merge", "own.nc", "b.nc", "-o", "b.nc")
    assert "two results or more" in refused("merge", "own.nc", "-o", "c.nc")
    assert "gone.toml" in refused("merge", "own.nc", "b.nc", "--study", "gone.toml", "-o", "c.nc")


def test_a_result_that_is_all_well(evogt, folder, result):
    before = listing(folder)
    code, out, err = evogt("verify", "own.nc", "--rerun", "2", "--seed", "1")
    assert (code, err) == (0, "")
    executed, *lines = out.splitlines()
    assert executed == f"  executes: {folder / 'own.py'}"
    assert (lines[0], lines[-1]) == ("own.nc (main): 12 runs, 10 ok, 2 failed", "own.nc: all well")
    assert len(lines) == 4
    assert all(line.startswith("  computed again: main run family=") for line in lines[1:3])
    assert listing(folder) == before


# --- running, where nothing is left to run ----------------------------------------------------------------------------


def test_a_complete_result_is_left_as_it_is(evogt, folder, result, no_workers):
    before = read_study(result)
    assert evogt("run", "own.toml", "-o", "own.nc", "--strict", "-q")[0] == 1
    code, out, err = evogt("run", "own.toml", "-o", "own.nc")
    assert code == 0
    assert out.splitlines() == [
        "own.nc: 12 runs, 10 ok, 2 failed",
        "  2 x AssertionError: no luck (e.g. family=b, epsilon=0.2, seed=2)",
        "  traceback: evogt try own.nc family=b epsilon=0.2 seed=2",
    ]
    assert "12/12 runs" in err
    xr.testing.assert_identical(read_study(result).drop_attrs(deep=False), before.drop_attrs(deep=False))
    assert sorted(os.listdir(folder)) == ["own.nc", "own.py", "own.toml"]


def test_quiet_means_no_progress_and_all_ok_is_exit_code_zero(evogt, folder, no_workers):
    text = STUDY.replace('["a", "b"]', '["a"]')
    (folder / "own.toml").write_text(text)
    write(folder / "own.nc", text)
    assert evogt("run", "-q", "own.toml", "-o", "own.nc") == (0, "own.nc: 6 runs, 6 ok\n", "")


def test_a_cluster_is_started_where_something_is_left(evogt, folder, result, no_workers):
    """So that the tests above would notice one."""
    (folder / "own.toml").write_text(STUDY.replace("count = 3", "count = 4"))
    with pytest.raises(AssertionError, match="a cluster was started"):
        main(["run", "own.toml", "-o", "own.nc"], prog_name="evogt")


# --- plans ------------------------------------------------------------------------------------------------------------


def test_the_plan_of_the_papers_study(evogt, folder, no_workers):
    code, out, err = evogt("run", "-n", PAPER / "oscillatory_1d.toml")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "study oscillatory_1d: One-dimensional oscillatory-coefficient benchmark"
    assert lines[1] == "  pilot: 600 cases of 780 points = 4 dictionary x 3 epsilon x 13 candidate x 5 seed"
    assert "  main: 240 cases = 4 dictionary x 3 epsilon x 20 seed" in lines
    assert "then, with `gamma` chosen by the pilot:" in lines
    assert any("trial functions" in line and " 200 times, 33% of the cases" in line for line in lines)
    told = [re.fullmatch(r"    about (.*) of work, (.*) for the longest run", line) for line in lines]
    assert len([found for found in told if found]) == 2
    assert len([line for line in lines if re.fullmatch(r"    about \d+ MiB of memory for each worker", line)]) == 2
    assert re.fullmatch(r"in all about [\d.]+ s with --workers \d+, 2.0 s of it for the start", lines[-1])
    assert not any(line.split()[0] == "run" for line in lines)  # what each case has for itself is no shared work
    assert sorted(os.listdir(folder)) == ["own.py", "own.toml"]


def test_the_plan_of_ones_own_method(evogt, folder):
    code, out, err = evogt("run", "-n", "own.toml")
    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == ["study own", "  main: 12 cases = 2 family x 2 epsilon x 3 seed"]
    assert out.splitlines()[-1].startswith("in all about 2.0 s with --workers ")
    assert "MiB" not in out


# --- a quick start ----------------------------------------------------------------------------------------------------

HEAVY = (
    "numpy",
    "scipy",
    "sympy",
    "xarray",
    "pandas",
    "dask",
    "distributed",
    "netCDF4",
    "matplotlib",
    "pydantic",
    "rich",
)


def python(code, *arguments):
    """Runs code in a fresh process; its output and the processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["run", "--help"], ["--version"]])
def test_help_needs_nothing_heavy_and_answers_at_once(arguments):
    code = (
        "import sys\n"
        "from evogt_study.cli.main import main\n"
        "try: main(sys.argv[1:], prog_name='evogt')\n"
        f"finally: print('loaded:', *(name for name in {HEAVY} if name in sys.modules))"
    )
    out, seconds = python(code, *arguments)
    assert out.splitlines()[-1] == "loaded:"
    assert "evogt" in out
    assert seconds < 3  # measured: 0.1; with xarray and distributed: 2 and more


def test_the_installed_command_is_this_one(folder):
    done = subprocess.run([COMMAND, "run", "-n", "gone.toml"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "evogt: cannot read the study file gone.toml: No such file or directory\n"
