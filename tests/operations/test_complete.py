"""A study that is run again when its result is complete."""

import os
import subprocess
import sys

import netCDF4
import pytest
from helpers import rewritten

from evogt_study.operations.complete import find_complete_result
from evogt_study.results import provenance
from evogt_study.results.finished import shard_folder
from evogt_study.schema.variables import Status
from evogt_study.study.study import Study

METHOD = """import math
try:
    from helper import FACTOR
except ImportError:
    FACTOR = 1
def method(seed):
    return {'error': FACTOR * float(seed)}
"""
HEAVY = ["numpy", "xarray", "dask", "distributed", "h5py", "netCDF4", "scipy", "pandas", "sympy"]
RUN = f"""
import sys
from evogt_study.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print([name for name in {HEAVY} if name in sys.modules])
"""


@pytest.fixture
def own(own_study, result_of, tmp_path):
    """A study of a function of one's own, and its result."""
    (tmp_path / "data.csv").write_text("1")
    study = own_study(METHOD, 'depends = ["data.csv"]\n[axes]\nseed = [0, 1, 2]')
    yield tmp_path / "own.toml", result_of(study, tmp_path / "own.nc")
    (tmp_path / "method.py").unlink(missing_ok=True)  # a pipe would be waited for by whoever reads modules' sources


@pytest.mark.parametrize("kind", ["formulas", "function"])
def test_it_needs_no_heavy_imports_and_no_new_file(small_study, own_study, result_of, tmp_path, kind):
    text = small_study if kind == "formulas" else own_study(METHOD, "[axes]\nseed = { count = 12 }").text
    (tmp_path / "small.toml").write_text(text)
    path = result_of(Study.from_file(tmp_path / "small.toml"), tmp_path / "small.nc")
    before = path.read_bytes()
    for more, shown in (("--quiet", "small.nc: 12 runs, 12 ok"), ("--json", '"complete": true')):
        command = [sys.executable, "-c", RUN, "run", "small.toml", "-o", "small.nc", more]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "[]")
        assert shown in done.stdout
        assert done.stderr == "" if more == "--quiet" else "12/12 runs, all reused, 0 failed\n"
    assert path.read_bytes() == before


def test_a_result_as_it_was_planned_and_written(own):
    study, path = own
    left = path.with_name(f".{path.name}.01234567-1.5-01234567.tmp")
    left.touch()
    assert find_complete_result(study, path)[0] == path
    assert not left.exists()


def change_number(study, path):
    with netCDF4.Dataset(path, "a") as file:
        file["error"][0] = 3.0


def remove_checksums(study, path):
    with netCDF4.Dataset(path, "a") as file:
        file.delncattr("content_digests")


def write(name, text):
    return lambda study, path: (study.parent / name).write_text(text)


def leave_run(data):
    data["run_status"].values[1] = Status.not_run


CHANGES = {
    "another study": lambda study, path: study.write_text(study.read_text() + "# more"),
    "no TOML": lambda study, path: study.write_text("name ="),
    "no study": lambda study, path: study.unlink(),
    "no result": lambda study, path: path.unlink(),
    "a part of a result": lambda study, path: path.write_bytes(path.read_bytes()[:5000]),
    "another function": write("method.py", METHOD.replace("seed)}", "seed + 1)}")),
    "no function": lambda study, path: (study.parent / "method.py").unlink(),
    "a pipe": lambda study, path: ((study.parent / "method.py").unlink(), os.mkfifo(study.parent / "method.py")),
    "a helper beside the function": write("helper.py", "FACTOR = 2\n"),
    "another data file": write("data.csv", "1,2"),
    "other counts": lambda study, path: path.write_bytes(path.read_bytes().replace(b'"planned": 3', b'"planned": 9')),
    "a run that is left": lambda study, path: rewritten(path, leave_run),
    "shards": lambda study, path: shard_folder(path).mkdir(),
    "another number": change_number,
    "no checksums": remove_checksums,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_takes_more_to_know(own, change):
    CHANGES[change](*own)
    assert find_complete_result(*own) is None


def test_other_code_of_the_package(own, monkeypatch):
    monkeypatch.setattr(provenance, "hash_package", lambda: "0.0.1 (code 01234567)")
    assert find_complete_result(*own) is None


def test_a_file_that_another_program_changed_is_packed_again_with_a_warning(own, evogt, no_workers):
    study, path = own
    change_number(study, path)
    code, _, err = evogt("run", study, "-o", path)
    assert code == 0
    assert "`error` has changed since it was written" in err
    assert find_complete_result(study, path)[0] == path
    with netCDF4.Dataset(path) as file:
        assert file["error"][0] == 3.0
