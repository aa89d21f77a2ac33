"""A result is all well, or everything that is wrong with it is named; flipped bits that matter are found."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import h5py
import netCDF4
import numpy as np
import psutil
import pytest
from helpers import PARABOLA, PILOTED, eventually, rewritten

from evogt_study.errors import ResultError
from evogt_study.operations.verify import verify
from evogt_study.results import index as integrity
from evogt_study.results.index import DIGESTS, inspect
from evogt_study.results.netcdf import read_result, write_result
from evogt_study.schema.variables import Status
from evogt_study.study.study import Study

OWN = """
    def method(family, seed):
        if seed == 2 and family == "b":
            raise ValueError("no luck")
        error = float("nan") if seed == 3 else 0.1 * (1 + seed)
        return {"error": error, "rank": 7, "word": family, "trace": ("n", [0.1] * (1 + seed))}
"""
REST = '[axes]\nfamily = ["a", "b"]\nseed = { count = 4 }\n'


@pytest.fixture
def result(own_study, result_of, tmp_path):
    return result_of(own_study(OWN, REST), tmp_path / "own.nc")


@pytest.fixture
def piloted(own_study, result_of, tmp_path):
    return result_of(own_study(PARABOLA, PILOTED), tmp_path / "own.nc")


def findings(path, **options):
    made = verify(path, **options)
    assert made.well == (not made.findings)
    return list(made.findings)


# --- all well ---------------------------------------------------------------------------------------------------------


def test_a_result_of_the_papers_method(small_study, result_of, tmp_path):
    made = verify(result_of(Study.from_text(small_study), tmp_path / "small.nc"), rerun=4)
    assert made.findings == ()
    assert len(set(made.recomputed)) == 4
    assert all(
        line.startswith("main run dictionary=") and line.endswith("equal bit for bit") for line in made.recomputed
    )


def test_a_pilot_is_checked_and_sampled_too(piloted):
    made = verify(piloted, rerun=100)
    assert made.findings == ()
    assert sum(line.startswith("pilot run") for line in made.recomputed) == 12
    assert sum(line.startswith("main run") for line in made.recomputed) == 4


def test_the_sample_is_the_seeds(result):
    drawn = [verify(result, rerun=2, seed=seed).recomputed for seed in range(8)]
    assert verify(result, rerun=2, seed=5).recomputed == drawn[5]
    assert len(set(drawn)) > 1
    assert verify(result).recomputed == ()


def test_a_method_that_returns_everything_a_result_can_hold(own_study, result_of, tmp_path):
    method = """
        import numpy as np, xarray as xr
        def method(flag, widths, seed):
            odd = {"units": "days since 2000-01-01", "empty": "", "one": 1, "half": 0.5, "word": "höhe", "list": "a b"}
            x = xr.DataArray(np.array([1, 2, 2 + seed]), dims="x", attrs=odd)
            u = xr.DataArray(np.array([0.5, -np.nan, -0.0], dtype="f4"), {"x": x}, "x", attrs=odd)
            words = (("x",), np.array(["", "ä", "b" * seed]))
            return {"u": u, "n": 3 if flag else 2.5, "ok": flag, "words": words, "error": 1.0, "k": np.uint8(seed)}
    """
    rest = "[axes]\nflag = [true, false]\nwidths = [[1, 2], [3]]\nseed = [0, 1]\n"
    made = verify(result_of(own_study(method, rest), tmp_path / "own.nc"), rerun=100)
    assert made.findings == ()
    assert len(made.recomputed) == 8
    assert all(line.endswith("equal bit for bit") for line in made.recomputed)


CHANGED = "the file has no valid index: another program has changed it, or its end is damaged"


def test_a_change_by_another_program_is_named_by_variable(result):
    with netCDF4.Dataset(result, "a") as file:
        file["error"][0, 0] = 0.125
        file["rank"].units = "m"
    messages = findings(result)
    assert messages[:3] == [
        CHANGED,
        "main: `error` has changed since it was written",
        "main: `rank` has changed since it was written",
    ]
    assert not any("has changed since it was written" in line for line in messages[3:])


@pytest.mark.parametrize("text", [None, "[" * 100_000, "[", "[1]", "7"])
def test_a_file_without_index_and_digests_is_checked_otherwise(result, text):
    with netCDF4.Dataset(result, "a") as file:
        file.delncattr(DIGESTS)
        if text is not None:
            file.setncattr(DIGESTS, text)
    assert findings(result) == [CHANGED, *[f"main: the attribute `{DIGESTS}` is damaged"] * (text is not None)]


# --- bytes ------------------------------------------------------------------------------------------------------------


def stored_at(path):
    """Where the first chunk of each variable is, or all of its bytes: the offset and the size in the file."""
    found = {}
    with h5py.File(path) as file:
        for name in file:
            known = file[name].id
            if file[name].chunks and known.get_num_chunks():
                found[name] = (known.get_chunk_info(0).byte_offset, known.get_chunk_info(0).size)
            elif known.get_storage_size():
                found[name] = (known.get_offset(), known.get_storage_size())
    return found


@pytest.mark.parametrize(
    ("name", "runs"),
    [("error", ""), ("trace", " of 5 runs, for example family=a, seed=0,"), ("run_status", ""), ("run_seconds", "")],
)
def test_one_bit_of_a_number_is_found_by_the_checksum(result, name, runs):
    offset, size = stored_at(result)[name]
    whole = bytearray(result.read_bytes())
    whole[offset + size // 2] ^= 1
    result.write_bytes(whole)
    made = verify(result)
    assert made.findings == (f"main: `{name}`{runs} is damaged: its checksum does not match",)
    assert made.left_out == "nothing else was checked"


@pytest.mark.parametrize(
    ("old", "new"), [(b"status of the run", b"status of the rum"), (b"one run for each", b"one sun for each")]
)
def test_attributes_have_a_checksum(result, old, new):
    whole = result.read_bytes()
    assert whole.count(old) >= 1
    result.write_bytes(whole.replace(old, new))
    assert findings(result) == ["the file is damaged: the checksum of its attributes and structure does not match"]


@pytest.mark.long
def test_a_file_that_hdf5_would_read_for_ever(result, monkeypatch):
    """In its heap of words, a size of zero: the library looks for the next word where it is already."""
    monkeypatch.setattr(integrity, "MIN_CHECK_SECONDS", 3)
    whole = bytearray(result.read_bytes())
    at = whole.index(b"GCOL") + 16
    for _ in range(2):
        at += 16 + -(-int.from_bytes(whole[at + 8 : at + 16], "little") // 8) * 8
    whole[at : at + 16] = bytes(16)
    result.write_bytes(whole)
    assert findings(result) == ["the file is damaged: the checksum of its attributes and structure does not match"]
    result.write_bytes(whole[:-1])  # without its index
    made = verify(result)
    assert made.left_out == "nothing else was checked"
    assert len(made.findings) == 1
    assert re.search(r"the file is damaged: (reading it did not end within 3 s|it cannot be opened)", made.findings[0])
    assert reading(result) == []


def reading(path):
    """Processes of ours that are reading this file."""
    found = []
    for process in psutil.Process().children():
        with suppress(psutil.Error):  # it has just ended
            found += [process] * (str(path) in process.cmdline())
    return found


def test_a_library_that_takes_its_process_with_it(tmp_path):
    """Reading a pipe without a writer lasts until it is killed."""
    os.mkfifo(tmp_path / "own.nc")
    with ThreadPoolExecutor(1) as thread:
        messages = thread.submit(inspect, tmp_path / "own.nc")
        eventually(lambda: reading(tmp_path / "own.nc"))[0].kill()
        assert messages.result(60).broken == ["the file is damaged: reading it crashed (SIGKILL)"]


# --- what is written, but wrong ---------------------------------------------------------------------------------------


def put(name, value, at=(0, 0)):
    return lambda data: data[name].values.__setitem__(at, value)


CHANGES = [  # of a result, and what is said of them
    (put("error", np.nan), "main: 1 run with the status ok and no finite `error`, for example family=a, seed=0"),
    (put("rank", 7, (1, 2)), "main: `rank` must be nan, got 7.0 at family=b, seed=2"),
    (put("run_status", 9), "`run_status` must be one of 0, 1, 2, 3, 4, 5, got 9"),
    (put("run_message", "hm"), "1 run with a wrong `run_message`"),
    (put("run_attempts", 0), "1 run with wrong `run_attempts`"),
    (put("run_seconds", np.nan), "1 run with wrong `run_seconds`"),
    (put("run_software", 3), "`run_software` must be an index into its 1 software_sets, got 3"),
    (put("run_key", "0" * 20), "1 of 8 run keys differ from the keys of the study, for example at family=a, seed=0: 0"),
    (put("run_status", Status.lost, (1, 2)), "main: 1 run of 8 with the status lost, for example family=b, seed=2. "),
    (lambda data: data["error"].values.__imul__(2), "relative difference 5.0e-01"),
    (lambda data: data.attrs.pop("cpu"), "the attribute `cpu` is missing"),
    (lambda data: data.attrs.update(title="x"), "the attribute `title` must be 'own', got 'x'"),
    (lambda data: data["trace"].attrs.pop("long_name"), "`trace` must have long_name = 'trace', got None"),
    (lambda data: data["run_status"].attrs.update(flag_meanings="good bad"), "`run_status` must have flag_meanings"),
    (lambda data: data["run_seconds"].attrs.update(units="h"), "`run_seconds` must have units = 's', got 'h'"),
    (lambda data: data.attrs.update(study=data.attrs["study"] + "#"), "the attribute `study` must have the SHA-256"),
    (lambda data: data.update({"seed": ("seed", [0, 1, 2, 5], data["seed"].attrs)}),
     "main: `seed` must be 3, got 5 at seed=5"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=[message for _, message in CHANGES])
def test_what_is_wrong_is_named(result, change, message):
    messages = findings(rewritten(result, change), rerun=1)
    assert any(message in line for line in messages), messages


def test_axes_that_are_not_the_studys(result):
    groups = read_result(result)
    write_result(result, {"main": groups["main"].isel(seed=slice(2))})
    with pytest.raises(ResultError, match=r"must have the axes 2 family x 4 seed of its study, got 2 family x 2 seed"):
        verify(result)


def test_equal_keys_with_different_values(small_study, result_of, tmp_path):
    text = small_study.replace("N1 = 24\n", "").replace("k = [1, 2]", "k = [1]\nN1 = [24, 30]").replace("3 }", "1 }")
    path = result_of(Study.from_text(text), tmp_path / "small.nc")
    assert findings(path) == []

    def change(data):
        data["norm_history"].values[0, 0, 1, 0, 1] += 1e-15  # transnet has no N1

    assert any("`norm_history` must be " in line for line in findings(rewritten(path, change)))


def test_a_choice_that_is_not_the_pilots(piloted):
    def change(data):
        data["gamma"].values[0] = 6

    messages = findings(rewritten(piloted, change))
    assert "the pilot's runs choose gamma = 1 for target=2, but the file has 6" in messages
    assert any("2 of 4 run keys differ" in line for line in messages)


def test_a_pilot_that_is_missing(piloted):
    data = read_result(piloted)["main"]
    del data.attrs["pilot_group"]
    write_result(piloted, {"main": data})
    assert "the study has a pilot, but the file has no runs of this phase" in findings(piloted)


def test_a_run_that_fails_now(own_study, result_of, tmp_path):
    """A file that is only read is no part of the code hash, unless `depends` lists it."""
    (tmp_path / "data.txt").write_text("")
    method = """
        from pathlib import Path
        def method(seed):
            assert not Path(__file__).with_name("data.txt").read_text()
            return {"error": 1.0}
    """
    path = result_of(own_study(method, "[axes]\nseed = [0, 1]\n"), tmp_path / "own.nc")
    (tmp_path / "data.txt").write_text("1")
    messages = findings(path, rerun=1)
    assert len(messages) == 1
    assert "is ok in the file, but not when computed again: AssertionError" in messages[0]


# --- other software ---------------------------------------------------------------------------------------------------


def by_other_software(factor, names=("error",)):
    def change(data):
        for name in names:
            data[name].values[...] = data[name].values * factor
        sets = data["run_software"].attrs["software_sets"]
        data["run_software"].attrs["software_sets"] = sets.replace(np.__version__, "1.0.0")

    return change


def test_other_software_is_judged_by_the_relative_difference(result):
    made = verify(rewritten(result, by_other_software(1 + 1e-10)), rerun=1)
    assert made.findings == ()
    assert "relative difference at most 1.0e-10 with other software (numpy 1.0.0, here " in made.recomputed[0]
    messages = findings(rewritten(result, by_other_software(1 + 1e-7)), rerun=1)
    assert len(messages) == 1
    assert "error: " in messages[0]


def test_what_rounding_decides_is_not_judged_with_other_software(small_study, result_of, tmp_path):
    path = result_of(Study.from_text(small_study), tmp_path / "small.nc")
    assert findings(rewritten(path, by_other_software(-3.0, ["mass_defect", "coefficients"]))) == []
    assert len(findings(rewritten(path, by_other_software(2.0, ["rank"])), rerun=2)) == 2
    assert json.loads(read_result(path)["main"]["run_software"].attrs["software_sets"])[0]["numpy"] == "1.0.0"
