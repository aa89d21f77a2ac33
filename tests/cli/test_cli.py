"""The command line in cases that `transcripts.txt` does not hold: changed files, other processes and heavy imports."""

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr
from helpers import rewritten
from test_transcripts import FUNCTION, STUDY, add_result, list_files

from evogt_study.results.netcdf import SCHEMA_VERSION

COMMAND = Path(sys.executable).with_name("evogt")  # as installed where the tests run
PAPER = Path(__file__).parents[2] / "studies" / "paper"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working folder, with a study of twelve runs.  Two of them fail."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(FUNCTION)
    (tmp_path / "own.toml").write_text(STUDY)
    return tmp_path


@pytest.fixture
def result(folder):
    add_result(folder)
    return folder / "own.nc"


@pytest.fixture
def refused(evogt, folder):
    """Calls the command line with a mistake; the one line it prints."""

    def call(*arguments):
        before = list_files(folder)
        code, out, err = evogt(*arguments)
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert list_files(folder) == before
        return err

    return call


# --- files that another program changed -------------------------------------------------------------------------------

ATTRIBUTES = {"study": "", "id": "own", "result_schema": SCHEMA_VERSION}
OTHER_FILES = {
    "a file of another package": xr.Dataset({"temperature": ("x", [1.0])}),
    "a part of a result": xr.Dataset({"run_key": ("seed", ["a"])}, attrs=ATTRIBUTES),
    "a result without run metadata": xr.Dataset(
        {"run_key": ("seed", ["a"]), "run_status": ("seed", [1]), "error": ("seed", [1.0])}, attrs=ATTRIBUTES
    ),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_another_netcdf_file_is_not_overwritten(refused, folder, name):
    OTHER_FILES[name].to_netcdf(folder / "own.nc", engine="netcdf4")
    assert "own.nc" in refused("run", "own.toml", "-o", "own.nc")


def set_all(name, value):
    return lambda file: file[name].__setitem__(slice(None), value)


def set_software(text):
    return lambda file: file["run_software"].setncattr("software_sets", text)


CHANGED_VALUES = {
    "a number": (set_all("error", 7.0), "`error` has changed since it was written"),
    "a missing number": (set_all("error", np.nan), "`error` has changed since it was written"),
    "a renamed variable": (lambda file: file.renameVariable("word", "wort"), "`word` has changed since it was written"),
}
INVALID_METADATA = {
    "a status": (set_all("run_status", 99), "`run_status` must be one of 0, 1, 2, 3, 4, 5, got 99"),
    "a negative status": (set_all("run_status", -3), "got -3"),
    "software": (set_all("run_software", 7), "`run_software` must be an index into its 1 software_sets, got 7"),
    "negative software": (set_all("run_software", -5), "got -5"),
    "no table of software": (set_software("nonsense"), "in the attribute software_sets"),
    "an empty table": (set_software("[]"), "index into its 0 software_sets"),
    "a table of numbers": (set_software("[1]"), "in the attribute software_sets"),
    "coordinates": (
        lambda file: file.setncattr("recorded_coordinates", "error nothere"),
        "`recorded_coordinates` must name coordinates, got error",
    ),
}


def change_file(path, change):
    """Edit a result as another program does, which leaves its checksums."""
    with netCDF4.Dataset(path, "a") as file:
        change(file)


@pytest.mark.long
@pytest.mark.parametrize("name", CHANGED_VALUES)
def test_changed_values_are_named_by_verify_and_run_and_refused_by_merge(evogt, refused, result, name):
    """The user names the result of `run`, so another program may have changed it on purpose."""
    change, message = CHANGED_VALUES[name]
    assert evogt("run", "own.toml", "seed=0..1", "-o", "other.nc", "-q", "--workers", "0")[0] == 0
    change_file(result, change)
    code, out, err = evogt("verify", "own.nc")
    assert (code, err, message in out) == (1, "", True)
    line = refused("merge", "other.nc", "own.nc", "-o", "new.nc")
    assert (message in line, "own.nc" in line) == (True, True)
    code, _, err = evogt("run", "own.toml", "-o", "own.nc")
    assert (code, message in err, "The study reuses the runs in this state" in err) == (0, True, True)


LONG_NAMES = {name for name in INVALID_METADATA if "table" not in name}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in LONG_NAMES else ()) for name in INVALID_METADATA]
)
def test_run_metadata_without_a_meaning_are_refused_by_each_command(evogt, refused, result, name):
    change, message = INVALID_METADATA[name]
    change_file(result, change)
    assert message in refused("run", "own.toml", "-o", "own.nc")
    for command in ("status", "summary", "plot", "report", "try"):
        assert message in refused(command, "own.nc")
    assert message in refused("export", "own.nc", "-o", "runs.csv")
    code, out, err = evogt("verify", "own.nc")
    assert (code, err, message in out) == (1, "", True)


def test_the_status_counts_the_runs_of_each_software(evogt, result):
    def older(data):
        (entry,) = json.loads(data.run_software.attrs["software_sets"])
        data.run_software.attrs["software_sets"] = json.dumps([entry, entry | {"numpy": "1.0.0"}])
        data.run_software.values[..., 0] = 1

    code, out, _ = evogt("status", rewritten(result, older))
    assert code == 0
    assert re.search(rf"^  8 runs by .*, numpy {re.escape(np.__version__)}, ", out, re.M)
    assert re.search(r"^  4 runs by .*, numpy 1\.0\.0, ", out, re.M)


def test_the_plan_of_the_papers_study(evogt, folder, no_workers):
    code, out, err = evogt("run", "-n", PAPER / "oscillatory_1d.toml")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "study oscillatory_1d: One-dimensional oscillatory-coefficient benchmark"
    assert lines[1] == "  pilot: 600 cases of 780 points = 4 dictionary x 3 epsilon x 13 candidate x 5 seed"
    assert "  main: 240 cases = 4 dictionary x 3 epsilon x 20 seed" in lines
    assert "then, with `gamma` chosen by the pilot:" in lines
    assert any("trial functions" in line and " 200 times, 33% of the cases" in line for line in lines)
    assert len([line for line in lines if re.fullmatch(r"    about .* of work, .* for the longest run", line)]) == 2
    assert len([line for line in lines if re.fullmatch(r"    about \d+ MiB of memory for each worker", line)]) == 2
    assert re.fullmatch(r"in all about [\d.]+ s with --workers \d+, 2.0 s of it for the start", lines[-1])
    assert not any(line.split()[0] == "run" for line in lines)  # only shared stages have a line


# --- processes --------------------------------------------------------------------------------------------------------


def call_process(*command):
    """A command in a process of its own: its exit code, its output and its errors."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


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
def test_a_scheduler_that_cannot_be_reached(folder, option, value):
    """A connection that was begun neither delays the end of the process nor prints anything then."""
    (folder / "s.json").write_text("no JSON")
    before = list_files(folder)
    code, out, err = call_process(COMMAND, "run", "own.toml", option, value)
    assert (code, out, err.startswith(f"evogt: `{option}` must be the "), value in err) == (2, "", True, True)
    assert (len(err.splitlines()), list_files(folder)) == (1, before)


@pytest.mark.long
def test_a_timeout_of_centuries_is_no_timeout(folder):
    code, out, err = call_process(COMMAND, "run", "own.toml", "-q", "--workers", "1", "--run-timeout", "1e10")
    assert (code, err) == (0, "")
    assert out.startswith("results/own.nc: 12 runs, 10 ok, 2 failed\n")


HEAVY = "numpy scipy sympy xarray pandas dask distributed netCDF4 matplotlib pydantic".split()  # noqa: SIM905


def test_help_needs_nothing_heavy_and_answers_at_once():
    code = (
        "import sys\nfrom evogt_study.cli.main import main\n"
        "for arguments in (['--help'], ['-h'], ['run', '--help'], ['--version']):\n"
        "    try: main(arguments, prog_name='evogt')\n"
        f"    except SystemExit: print('loaded:', *(name for name in {HEAVY} if name in sys.modules))"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    _, out, _ = call_process(sys.executable, "-c", code)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 3  # measured: 0.1; with xarray 2 and more
    assert [line for line in out.splitlines() if line.startswith("loaded:")] == ["loaded:"] * 4
    assert out.count("Usage: evogt") == 3


def test_a_summary_imports_nothing_that_it_does_not_need(result):
    """Most of the time that a summary of 100,000 runs takes is imports."""
    heavy = ("sympy", "scipy.stats", "distributed", "pydantic", "matplotlib")
    code = (
        "import sys\nfrom evogt_study.cli.main import main\n"
        "try:\n    main(['summary', 'own.nc', '--missing', 'drop'])\n"
        f"except SystemExit:\n    print([name for name in {heavy} if name in sys.modules])"
    )
    assert call_process(sys.executable, "-c", code)[1].splitlines()[-1] == "[]"


def test_the_installed_command_is_this_one():
    line = "evogt: cannot read the study file gone.toml: No such file or directory\n"
    assert call_process(COMMAND, "run", "-n", "gone.toml") == (2, "", line)
