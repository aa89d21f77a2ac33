"""Studies of programs: what reaches a program, what is read, which runs are reused, and which folders are left."""

import os
import stat
import subprocess
import sys
import time
from datetime import date

import numpy as np
import psutil
import pytest
from click.testing import CliRunner
from helpers import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evogt_study as evs
from evogt_study.cli.main import main
from evogt_study.errors import StudyError
from evogt_study.study.plan import plan_study

ECHO = f"""#!{sys.executable}
import json, pathlib, sys
text = pathlib.Path("input").read_bytes().decode() if pathlib.Path("input").exists() else ""
json.dump({{"arguments": sys.argv[1:], "text": text}}, open("out.json", "w"))
"""
SH = "#!/bin/sh\n"
"""Programs in `sh` start in 1 ms."""
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Write the program of this name and text, in the folder in which the test runs."""
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write


def run(**given):
    return evs.run(evs.Study(**given), workers=0)


def evogt(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


# --- what reaches the program -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", [False, True])
@pytest.mark.parametrize("command", ["./echo {x} --x={x} 'a b' {y}", "./echo {x} \"--x={x}\" 'a b' {y}"])
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(x=TEXT, y=st.one_of(TEXT, st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1)))
def test_values_reach_the_program_exactly(program, shell, command, x, y):
    program("echo", ECHO)
    program("input.tmpl", "x = [{x}]\r\n{{x}} { } {'a': 1}")
    written = y if isinstance(y, str) else repr(y)
    read = {"arguments": "out.json:arguments", "text": "out.json:text"}
    ds = run(command=command, shell=shell, template="input.tmpl", read=read, axes={"y": [y]}, constants={"x": x})
    assert ds.run_message.values.tolist() == [""]
    assert ds.arguments.values.tolist() == [[x, f"--x={x}", "a b", written]]
    assert ds.text.values.tolist() == [f"x = [{x}]\r\n{{x}} {{ }} {{'a': 1}}"]


@pytest.mark.parametrize(
    ("text", "value", "received"),
    [
        ("{x}", 0.1 + 0.2, "0.30000000000000004"), ("{x:.3g}", 0.1 + 0.2, "0.3"), ("{x:05d}", 42, "00042"),
        ("{x}", np.float32(0.1), "0.10000000149011612"), ("{x}", True, "true"), ("{x}", [1, 2.5], "[1, 2.5]"),
        ("{x}", date(2026, 1, 31), "2026-01-31"), ("-n={x} $HOME", -1, "-n=-1"), ("{{x}}", 1, "{x}"),
    ],
)  # fmt: skip
def test_a_value_is_written_as_documented(program, text, value, received):
    program("echo", ECHO)
    ds = run(command=f"./echo {text} {{x}}", read={"first": "out.json:arguments[0]"}, axes={"x": [value]})
    assert ds.first.item() == received


def test_a_shell_reads_no_value_as_its_own_text(program):
    program("echo", ECHO)
    ds = run(
        command="./echo \"$(printf %s done)\" {x} \"{x}\" '{x}' ${#HOME} | cat; true", shell=True,
        read={"arguments": "out.json:arguments"}, axes={"x": ["$(touch hacked)", "`id`; '\"", "-n\n"]},
    )  # fmt: skip
    for x, row in zip(ds.x.values, ds.arguments.values.tolist(), strict=True):
        assert row[:4] == ["done", x, x, x]
        assert row[4].isdigit()


def test_programs_and_named_files_are_found_from_the_folder_of_the_run(program, tmp_path):
    """So that a script beside the study, and files that a template names, need no path."""
    program("data.txt", "7\n")
    (tmp_path / "tools").mkdir()
    program(
        "tools/add.py", "import pathlib, sys\nprint(int(pathlib.Path('data.txt').read_text()) + int(sys.argv[1]))\n"
    )
    ds = run(command=f"{sys.executable} tools/add.py {{i}}", depends=["data.txt"], axes={"i": [1, 2]})
    assert ds.value.values.tolist() == [8, 9]


def test_a_container_is_a_prefix_of_the_command(program, monkeypatch, tmp_path):
    program("image.sif", "")
    (tmp_path / "bin").mkdir()
    program("bin/apptainer", '#!/bin/sh\necho "\\"$*\\""\n')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    ds = run(command="solve {i}", container="image.sif", axes={"i": [1]})
    assert ds.value.item() == f"exec --bind {tmp_path} {tmp_path}/image.sif solve 1"


# --- what is read -----------------------------------------------------------------------------------------------------


def test_every_kind_of_file_is_read(program):
    program(
        "write",
        f"""#!{sys.executable}
import numpy as np, sys, xarray as xr
n = int(sys.argv[1])
print("t,name\\n0.5,a\\n1.5,b")
open(f"out_{{n}}.csv", "w").write("k;x\\n" + "".join(f"{{k}};{{k / 2}}\\n" for k in range(n)))
open("a.json", "w").write('{{"deep": {{"list": [1, 2, 4], "flag": true, "none": null}}}}')
np.save("a.npy", np.float32([[1, 2]]))
xr.Dataset({{"u": ("z", [1.0, 2.0])}}, {{"z": [10, 20]}}).to_netcdf("a.nc")
""",
    )
    read = {
        "k": "out_{n}.csv:k", "x": "out_{n}.csv:x", "last": "out_{n}.csv:x[-1]", "t": "stdout.csv:t",
        "name": "stdout.csv:name", "deep": "a.json:deep", "second": "a.json:deep.list[1]", "array": "a.npy",
        "u": "a.nc:u",
    }  # fmt: skip
    ds = run(command="./write {n}", read=read, axes={"n": [1, 2]})
    assert ds.run_message.values.tolist() == ["", ""]
    assert ds.k.dims == ds.x.dims == ("n", "out_row")
    assert ds["last"].values.tolist() == [0.0, 0.5]
    assert ds.name.values.tolist() == [["a", "b"]] * 2
    assert ds.t.values.tolist() == [[0.5, 1.5]] * 2
    assert ds.deep_flag.values.tolist() == [True, True]
    assert ds.second.values.tolist() == [2, 2]
    assert ds.array.dtype == np.float32
    assert ds.u.dims == ("n", "z")
    assert ds.z.values.tolist() == [10, 20]


@pytest.mark.parametrize(
    ("printed", "value"), [("1.5", 1.5), ("  7\n", 7), ("nan", np.nan), ("1 2.5", [1.0, 2.5]), ("done.", "done.")]
)
def test_without_read_the_printed_value_is_the_result(program, printed, value):
    program("say", f"{SH}printf %s '{printed}'")
    ds = run(command="./say {i}", axes={"i": [0]})
    np.testing.assert_array_equal(ds.value.values[0], value)


def test_printed_json_gives_names_to_values(program):
    program("say", SH + """echo '{"a": 1, "b": [0.5, 2]}'""")
    ds = run(command="./say {i}", axes={"i": [0]})
    assert (ds.a.item(), ds.b.values.tolist()) == (1, [[0.5, 2.0]])


# --- status, messages and folders -------------------------------------------------------------------------------------


def test_failed_runs_have_exit_code_last_stderr_and_their_folder(program, tmp_path):
    program(
        "crash", SH + "echo begun\necho $1 > partial.txt\n[ $1 = 1 ] || { echo no root >&2; exit 3; }\n[ $1 != 2 ]\n"
    )
    study = evs.Study(command="./crash {i}", read={"value": "stdout"}, axes={"i": [1, 2]})
    ds = evs.run(study, output="a.nc", workers=1)
    assert ds.run_status.values.tolist() == ["ok", "failed"]
    assert ds.run_message.values[1] == "RunError: exit code 3 (output: no root)"
    folder = tmp_path / "a.nc.runs"
    assert [path.name for path in folder.iterdir()] == [ds.run_key.values[1]]
    assert (folder / ds.run_key.values[1] / "partial.txt").read_text() == "2\n"
    program("crash", SH + "kill -SEGV $$\n")
    assert "signal 11, SIGSEGV" in evs.run(study.replace(), workers=0).run_message.values[0]


def test_keep_keeps_the_folders_of_all_runs(program, tmp_path):
    program("say", SH + "echo $1")
    study = evs.Study(command="./say {i}", axes={"i": [1, 2]}, keep=True)
    ds = evs.run(study, output="a.nc", workers=0)
    assert {path.name for path in (tmp_path / "a.nc.runs").iterdir()} == set(ds.run_key.values)
    # where a folder is kept does not change what it computes
    assert evs.run(study.replace(keep=None), output="b.nc", reuse_from="a.nc", workers=0).run_key.equals(ds.run_key)
    assert not (tmp_path / "b.nc.runs").exists()


def test_a_timeout_ends_the_program_and_its_children(program, tmp_path):
    program("wait", SH + "sleep 1000 & echo $! > child; echo $$ >> child; wait\n")
    study = evs.Study(command="./wait {i}", axes={"i": [1]})
    ds = evs.run(study, output="a.nc", workers=1, run_timeout=1.0)
    assert ds.run_status.values.tolist() == ["timed_out"]
    (folder,) = (tmp_path / "a.nc.runs").iterdir()
    assert_ended((folder / "child").read_text().split())


@pytest.mark.long
def test_a_kill_of_the_command_ends_programs_and_their_children(program, tmp_path):
    program("wait", SH + "sleep 1000 & echo $! > child; echo $$ >> child; wait\n")
    (tmp_path / "a.toml").write_text('name = "a"\ncommand = "./wait {i}"\n[axes]\ni = [1]\n')
    with subprocess.Popen([sys.executable, "-m", "evogt_study", "run", "-q", "a.toml", "--workers", "1"]) as process:
        end = time.monotonic() + 60.0
        while not (found := list(tmp_path.glob("results/a.nc.runs/*/child"))) or len(found[0].read_text().split()) < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        process.kill()
    assert_ended(found[0].read_text().split())


def assert_ended(numbers):
    end = time.monotonic() + 10.0
    while any(psutil.pid_exists(int(number)) for number in numbers):
        assert time.monotonic() < end
        time.sleep(0.05)


# --- identity ---------------------------------------------------------------------------------------------------------


def keys(**given):
    return plan_study(evs.Study(axes={"i": [1]}, **given))[-1].keys.tolist()


def test_content_of_programs_and_named_files_decides_reuse(program):
    program("say", SH + "cat data.txt")
    program("data.txt", "1")
    program("in.tmpl", "{i}")
    given = {"command": "./say {i}", "depends": ["data.txt"], "template": "in.tmpl"}
    known = [keys(**given)]
    for name, text in (("say", SH + "cat ./data.txt"), ("data.txt", "2"), ("in.tmpl", "{i} ")):
        program(name, text)
        known.append(keys(**given))
    known.append(keys(**{**given, "command": "./say {i:.3g}"}))
    known.append(keys(**given, read={"x": "stdout"}))
    assert len({str(each) for each in known}) == len(known)
    os.rename("say", "other")
    assert keys(**{**given, "command": "./other {i}"}) == known[3], "a path is no content"


def test_python_and_files_give_one_key(program, tmp_path):
    program("say", SH + "echo $1")
    study = evs.Study(command="./say {i}", axes={"i": [1, 2]}, read={"x": "stdout"}, name="say", resources={"cores": 1})
    evs.run(study, output="a.nc", workers=0)
    study.to_file("say.toml")
    again = evs.Study.from_file("say.toml")
    assert plan_study(again)[-1].keys.tolist() == plan_study(study)[-1].keys.tolist()
    assert evs.open("a.nc").x.values.tolist() == [1, 2]
    (tmp_path / "sub").mkdir()
    with pytest.raises(StudyError, match="in the folder of the command"):
        study.to_file("sub/say.toml")


def test_a_program_that_changes_during_a_study_fails_the_run(program):
    program("say", SH + "echo 'echo 1' >> ./say; echo 1\n")
    ds = run(command="./say {i}", axes={"i": [1, 2]})
    assert ds.run_status.values.tolist() == ["ok", "failed"]
    assert "./say changed since the study was read" in ds.run_message.values[1]


def test_verify_and_try_execute_only_the_command_of_the_study_file(program, tmp_path):
    program("say", SH + "echo $1")
    (tmp_path / "say.toml").write_text('name = "say"\ncommand = "./say {i}"\n[axes]\ni = [1, 2]\n')
    assert evogt("run", "say.toml", "--workers", "1", "-o", "say.nc").exit_code == 0
    found = evogt("verify", "say.nc", "--rerun", "2")
    assert found.exit_code == 0
    assert str(tmp_path / "say") in found.output + found.stderr
    assert "equal bit for bit: value" in evogt("try", "say.nc", "i=2").output
    assert "ok in" in evogt("try", "say.toml", "i=2").output
    text = (tmp_path / "say.toml").read_text()
    (tmp_path / "say.toml").write_text(text.replace("./say {i}", "./say  {i}"))
    refused = evogt("try", "say.nc", "i=2")
    assert refused.exit_code == 2
    assert "say.toml is not the command in " in refused.output + refused.stderr
    (tmp_path / "say.toml").write_text(text)
    program("say", SH + "touch executed")
    refused = evogt("verify", "say.nc", "--rerun", "1")
    assert refused.exit_code == 2
    assert "say changed" in refused.output + refused.stderr
    assert not list(tmp_path.rglob("executed"))
    assert evogt("status", "say.nc").exit_code == 0


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "message"),
    [
        ({"x": "no.csv:x"}, r"the program wrote no no.csv \(read.x\)"),
        ({"x": "out.csv:x"}, r"out.csv has no `x`, only a, b \(read.x\)"),
        ({"x": "out.csv:a[7]"}, "out.csv cannot be read"),
        ({"x": "bad.csv:a"}, "bad.csv cannot be read: row 1 has 1 cells, but the first line has 2"),
    ],
)
def test_output_that_is_not_found_stops_the_study_at_its_first_run(program, read, message):
    program("say", SH + "echo a,b > out.csv; echo 1,2 >> out.csv; echo a,b > bad.csv; echo 1 >> bad.csv")
    with pytest.raises(StudyError, match=message):
        run(command="./say {i}", read=read, axes={"i": [1]})


def test_an_argument_that_no_program_can_receive_fails_its_run(program):
    program("say", SH + "echo 1")
    ds = run(command="./say {x}", axes={"x": ["x" * 2**20, "ok"]})
    assert ds.run_status.values.tolist() == ["failed", "ok"]
    assert "too long" in ds.run_message.values[0]


def test_a_published_study_has_the_files_of_its_command(program, tmp_path):
    program("say", SH + "cat data.txt input")
    program("data.txt", "1 ")
    program("input.tmpl", "{i}")
    text = 'name = "say"\ncommand = "./say {i}"\ntemplate = "input.tmpl"\ndepends = ["data.txt"]\n[axes]\ni = [1, 2]\n'
    text += '[publication]\ncreators = [{ name = "A" }]\nlicense = "CC0-1.0"\n'
    (tmp_path / "say.toml").write_text(text)
    assert evogt("run", "say.toml", "--workers", "1", "-o", "say.nc").exit_code == 0
    made = evogt("publish", "say.nc", "-o", "deposit")
    assert made.exit_code == 0, made.output
    assert {"say", "data.txt", "input.tmpl", "say.toml"} <= {path.name for path in (tmp_path / "deposit").rglob("*")}
