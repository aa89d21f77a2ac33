"""Results of other people: commands that only read run nothing of them, show them as they are, and read no more."""

import json
import re
import resource
import subprocess
import sys
import textwrap
import time

import netCDF4
import numpy as np
import psutil
import pytest

from evogt_study.errors import ResultError
from evogt_study.methods import code as user_code
from evogt_study.methods import loading as methods
from evogt_study.results.finished import shard_folder, write_description
from evogt_study.results.index import write_shard
from evogt_study.results.netcdf import SCHEMA_VERSION, read_result
from evogt_study.schema.variables import Status
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here

MARKED = """
    from pathlib import Path
    Path(__file__).with_name("imported").touch()
    def method(level, seed, scale=0.5, other=None):
        return {"error": scale * level + seed}
"""
AXES = "[axes]\nlevel = [1, 2, 3]\nseed = { count = 4 }\n"
READING = [
    ("status",), ("summary",), ("export", "-o", "table.csv"), ("plot", "-o", "p.png"), ("report", "-o", "page.html"),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def forget(folder):
    """Be as a process that has imported nothing of the user's."""
    (folder / "imported").unlink(missing_ok=True)
    user_code._run_file.cache_clear()
    methods.load_method.cache_clear()


def imported(folder):
    return (folder / "imported").exists()


def started(study, path, which):
    """What is there of a result while some of its cases are finished."""
    plan = plan_study(study)[-1]
    write_description(path, study)
    write_shard(shard_folder(path), compute_here(Batch.from_cases(plan.spec, [plan.case(index) for index in which])))


# --- nothing is run ---------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("finished", [True, False], ids=["a result", "shards"])
def test_commands_that_only_read_import_no_code(own_study, result_of, evogt, folder, finished):
    study = own_study(MARKED, AXES)
    if finished:
        result_of(study, folder / "own.nc")
    else:
        started(study, folder / "own.nc", range(8))
    forget(folder)
    for command, *options in READING:
        code, out, err = evogt(command, "own.nc", *options)
        assert code == 0, (command, err)
        assert not imported(folder), command
        assert command != "status" or f"12 runs, {'12 ok' if finished else '4 not run, 8 ok'}\n" in out


def test_a_result_is_checked_and_joined_without_its_code(own_study, result_of, evogt, folder):
    for name, seeds in (("a", "1"), ("b", "4")):
        result_of(own_study(MARKED, AXES.replace("4", seeds)), folder / f"{name}.nc")
    forget(folder)
    (folder / "method.py").rename(folder / "moved.py")
    assert evogt("merge", "a.nc", "b.nc", "-o", "c.nc") == (0, "c.nc: 12 runs, 12 ok\n", "")
    assert evogt("verify", "c.nc")[:2] == (0, "c.nc: 12 runs, 12 ok\nc.nc: all well\n")
    assert not imported(folder)
    code, out, _ = evogt("verify", "c.nc", "--rerun", "3", "--code", "moved.py")
    assert (code, out.count("equal bit for bit")) == (0, 3)
    assert imported(folder)


def test_a_study_is_compared_with_its_result_without_its_code(own_study, result_of, evogt, folder):
    """Not even the function's file is imported: the result declares what its function is."""
    for name, seeds in (("a", "1"), ("results/own", "4")):
        result_of(own_study(MARKED, AXES.replace("4", seeds)), folder / f"{name}.nc")
    forget(folder)
    assert evogt("status", "own.toml")[:2] == (0, "results/own.nc: 12 runs, 12 ok\n")
    assert evogt("merge", "a.nc", "results/own.nc", "--study", "own.toml", "-o", "c.nc")[0] == 0
    assert not imported(folder)
    (folder / "method.py").write_text((folder / "method.py").read_text().replace("+ seed", "- seed"))
    for command in (("status", "own.toml"), ("merge", "a.nc", "results/own.nc", "--study", "own.toml", "-o", "d.nc")):
        code, _, err = evogt(*command)
        assert (code, "runs of the present code of method.py:method" in err, len(err.splitlines())) == (
            2,
            True,
            1,
        )
    assert not imported(folder)


PROBLEMS = {
    "a factory": "def problem(k, nu=0.5):\n        return pde.FormulaProblem(dimension=1, exact=FORMULA)(k=k)",
    "formulas": "problem = pde.FormulaProblem(dimension=1, exact=FORMULA)",
}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_problem_of_the_user_is_read_from_its_declaration(small_study, result_of, evogt, folder, kind):
    source = f'FORMULA = "exp(-t)*sin(k*pi*x)"\n    from evogt_study import pde\n    {PROBLEMS[kind]}\n'
    (folder / "method.py").write_text(textwrap.dedent(MARKED + "    " + source))
    head, _, rest = small_study.partition("[problem]")
    text = head + 'problem = "method.py:problem"\n' + rest[rest.index("[axes]") :]
    (folder / "small.toml").write_text(text.replace("start = 0, count = 3", "count = 1"))
    study = Study.from_file("small.toml")
    result_of(study, folder / "small.nc")
    started(study, folder / "later" / "later.nc", [0])
    forget(folder)
    assert evogt("verify", "small.nc")[0] == 0
    assert "later.nc: 4 runs, 3 not run, 1 ok\n" in evogt("status", "later/later.nc")[1]
    assert not imported(folder)
    assert evogt("verify", "--rerun", "1", "small.nc")[0] == 0


@pytest.mark.parametrize(
    "command", [("verify", "--rerun", "3"), ("try", "level=1", "seed=0")], ids=lambda each: each[0]
)
def test_code_runs_that_computed_the_result_or_is_named(own_study, result_of, evogt, folder, command):
    result_of(own_study(MARKED, AXES), folder / "own.nc")
    name, *options = command

    def refused(message):
        forget(folder)
        code, _, err = evogt(name, "own.nc", *options)
        assert (code, message in err, err.count("--code FILE.py")) == (2, True, 1), err
        assert not imported(folder)

    original = (folder / "method.py").read_text()
    (folder / "method.py").write_text(original.replace("+ seed", "- seed"))
    refused("method.py changed since own.nc was computed, so nothing was executed")
    (folder / "method.py").write_text(original + "\n('")
    refused("cannot be imported: SyntaxError")
    (folder / "method.py").unlink()
    refused("must name a readable Python file")
    (folder.parent / "elsewhere.py").write_text(original)
    (folder / "method.py").symlink_to(folder.parent / "elsewhere.py")
    refused(f"which computed own.nc, must be in the folder {folder}. ")
    assert evogt(name, "own.nc", *options, "--code", folder.parent / "elsewhere.py")[0] == 0


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", '{"name": "other", "content": "0"}',
        '{"name": "method", "content": "0", "parameters": [["a b", 0, 0]]}',
    ],
)  # fmt: skip
def test_an_invalid_declaration_is_refused(own_study, evogt, folder, text):
    write_description(folder / "own.nc", own_study(MARKED, AXES))
    description = shard_folder(folder / "own.nc") / "study.json"
    description.write_text(json.dumps({**json.loads(description.read_text()), "study_code": text}))
    forget(folder)
    code, _, err = evogt("status", "own.nc")
    assert (code, "the result must declare `method.py:method`" in err, len(err.splitlines())) == (2, True, 1)
    assert not imported(folder)


# --- what is shown acts on nothing ------------------------------------------------------------------------------------

ACTING = r"""
    def method(family, seed):
        if seed == 1:
            raise ValueError("\x1b[2J\x9b\u202egood\x07")
        return {"error": 1.0}
"""
FAMILIES = r'"a\u001b]0;title\u0007", "b\n240 runs, 240 ok", "c\u202e\u0085d"'


def check_shown(text, lines=None):
    """Text without a character that does anything, but end a line."""
    assert not [c for c in text if not c.isprintable() and c != "\n"]
    assert lines is None or len(text.splitlines()) == lines


def test_no_command_prints_control_characters_of_a_result(own_study, result_of, evogt, folder):
    rest = f'title = "\\u001b[31m<b>t"\n[axes]\nfamily = [{FAMILIES}]\nseed = [0, 1]\n'
    study = own_study(ACTING, rest)
    result_of(study, folder / "own.nc")
    started(study, folder / "later.nc", [0, 1])
    for file, lines in (("own.nc", 3), ("later.nc", 4)):  # the latter's first: that nobody computes it
        _, out, err = evogt("status", file)
        check_shown(out + err)
        assert len(out.splitlines()) == lines
    assert (
        r"3 x ValueError: \x1b[2J\x9b\u202egood\x07 (e.g. family=a\x1b]0;title\x07, seed=1)"
        in evogt("status", "own.nc")[1]
    )
    for form, lines in (("text", 6), ("markdown", 5), ("csv", 5), ("latex", 9)):
        check_shown(evogt("summary", "own.nc", "--format", form)[1], lines)
    assert r"b\n240 runs, 240 ok  " in evogt("summary", "own.nc")[1]
    for command in (
        ("run", "-n", "own.toml"),
        ("verify", "own.nc", "--rerun", "1"),
        ("plot", "own.nc", "distribution", "-o", "p.svg"),
        ("report", "own.nc"),
    ):
        _, out, err = evogt(*command)
        check_shown(out + err)
    for picture in folder.glob("p*.svg"):
        check_shown(picture.read_text())
    page = (folder / "own.html").read_text()
    check_shown(page.replace("\t", ""))
    assert r"\x1b[31m&lt;b&gt;t" in page
    code, out, err = evogt("try", "own.nc", "family=c\u202e\x85d", "seed=1")
    assert (code, r"c\u202e\x85d, seed=1" in out, r"ValueError: \x1b[2J" in err) == (0, True, True)
    check_shown(out + err)
    code, out, err = evogt("try", "own.nc", "seed=7")
    assert code == 2
    check_shown(err, 1)


# --- no more is read than is needed -----------------------------------------------------------------------------------


def declaring(path, runs, more=lambda file: None):
    """A result that declares so many runs, of which nothing is stored."""
    with netCDF4.Dataset(path, "w") as file:
        file.setncatts({"study": "", "id": "own", "result_schema": SCHEMA_VERSION, "title": "own"})
        file.createDimension("seed", runs)
        file.createDimension("letters", 20)
        kinds = {"status": "i1", "attempts": "i4", "seconds": "f8", "software": "i4", "message": "S1", "key": "S1"}
        for name, kind in ((f"run_{name}", kind) for name, kind in kinds.items()):
            dims = ("seed", "letters") if kind == "S1" else ("seed",)
            file.createVariable(name, kind, dims, zlib=True, chunksizes=(min(runs, 2**15), 20)[: len(dims)])
            if kind == "S1":
                file[name].setncattr("_Encoding", "utf-8")
        file["run_software"].software_sets = "[{}]"
        more(file)
    return path


def long_axis(file):
    file.createDimension("x", 2**31)
    file.createVariable("x", "f8", ("x",), zlib=True, chunksizes=(2**20,))


def long_strings(file):
    file.createDimension("characters", 2**20)
    file.createVariable("word", "S1", ("seed", "characters"), zlib=True, chunksizes=(1, 2**20))[:100] = b"a"


def many_strings(file):
    file.createDimension("n", 10**7)
    file.createVariable("word", str, ("n",))


def refused_at_once(evogt, command, *arguments):
    """Return the message for a refused file.  The command needs little time for any declared size."""
    start = time.process_time()
    code, out, err = evogt(command, *arguments)
    assert time.process_time() - start < 2
    assert (code, len((out + err).splitlines())) == ((1, 3) if command == "verify" else (2, 1))
    return out + err


@pytest.mark.parametrize(
    "command", [*READING, ("verify",), ("try",), ("merge", "own.nc", "-o", "m.nc")], ids=lambda each: each[0]
)
def test_runs_that_a_file_cannot_hold_are_refused_at_once(evogt, folder, command):
    path = declaring(folder / "own.nc", 10**7)
    size = path.stat().st_size
    assert size < 40_000
    message = refused_at_once(evogt, command[0], "own.nc", *command[1:])
    assert f"damaged: its variables take at least 552,326 bytes, got a file of {size:,}" in message


@pytest.mark.parametrize(
    ("more", "padding", "message"),
    [
        (long_axis, 0, "its variables take at least 16,647,"),
        (long_axis, 2**25, "`x` must have at most 268,435,456 bytes, got 2,147,483,648 values"),
        (long_strings, 2**20, "`word` must have at most 268,435,456 bytes, got 1,048,576,000 values"),
        (many_strings, 2**20, "its variables take at least 160,00"),
    ],
)
def test_variables_larger_than_a_piece_may_be_are_refused_at_once(evogt, folder, more, padding, message):
    with declaring(folder / "own.nc", 1000, more).open("ab") as file:
        file.write(bytes(padding))  # so that the file is long enough to hold it
    assert f"own.nc is damaged: {message}" in refused_at_once(evogt, "status", "own.nc")


def test_more_runs_than_a_study_has_are_refused(evogt, folder):
    with declaring(folder / "own.nc", 10**7 + 1).open("ab") as file:
        file.write(bytes(2**20))
    assert "must have at most 10,000,000 runs, got 10,000,001" in refused_at_once(evogt, "status", "own.nc")


def zeros(file):
    for variable in list(file.variables.values()):
        variable[:] = b"" if variable.dtype == "S1" else 0
    file.createDimension("x", 10)
    file.createVariable("field", "f8", ("seed", "x"), zlib=True, complevel=9, chunksizes=(2**18, 10))[:] = 0


def test_values_that_compress_best_are_read(evogt, folder):
    """Nothing does better than zeros in large pieces."""
    path = declaring(folder / "own.nc", 2**18, zeros)
    assert path.stat().st_size < 2**18 * 137 / 300
    assert evogt("status", "own.nc")[0] == 0


def fields(file):
    """200 MB of them, and what else runs that are ok have."""
    for name, value in {"run_status": Status.ok, "run_attempts": 1, "run_seconds": 1.0, "run_software": 0}.items():
        file[name][:] = value
    file["run_key"][:] = np.array([list(f"{number:020d}") for number in range(24)], dtype="S1")
    file.createVariable("seed", "i8", ("seed",))[:] = range(24)
    for name in ("x", "y"):
        file.createDimension(name, 1024)
        file.createVariable(name, "f8", (name,))[:] = np.linspace(0.0, 1.0, 1024)
    file.createVariable("field", "f8", ("seed", "x", "y"), zlib=True, complevel=1, chunksizes=(1, 32, 1024))[:] = 1.0


def peak(*arguments):
    """Megabytes that a command takes at most, and its standard output."""
    code = (  # the kernel's own figure also counts what the process was forked from
        "import atexit, sys\nfrom pathlib import Path\nfrom evogt_study.cli.main import main\n"
        "atexit.register(lambda: print(Path('/proc/self/status').read_text(), file=sys.stderr))\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return int(re.search(r"VmHWM:\s*(\d+) kB", done.stderr)[1]) / 1024, done.stdout


@pytest.mark.long
def test_arrays_stay_in_the_file_until_they_are_drawn(folder):
    """They are 8 MB of each run, and one run's are drawn."""
    declaring(folder / "own.nc", 24, fields)
    used, out = peak("status", "own.nc")
    assert out == "own.nc: 24 runs, 24 ok\n"
    drawn, _ = peak("report", "own.nc")
    assert used < 180  # seen: 106 and 194; 372 and 525 when all was read
    assert drawn < 300


@pytest.mark.long
def test_too_little_memory_has_its_own_message(own_study, result_of, evogt, folder):
    """Of a good file: not that it is none."""
    method = "import numpy as np\ndef method(seed):\n    return {'trace': ('n', np.zeros(16_000_000))}\n"
    path = result_of(own_study(method, "[axes]\nseed = [0]\n"), folder / "own.nc")
    kept = resource.getrlimit(resource.RLIMIT_AS)
    room = 2**26  # enough for HDF5, not for 128 MB
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + room, kept[1]))
    try:
        with pytest.raises(ResultError, match="there is not enough memory to read .*own.nc"):
            read_result(path)
        printed = evogt("summary", "own.nc", "--variable", "trace")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, kept)
    assert printed == (2, "", "evogt: there is not enough memory to read own.nc\n")
