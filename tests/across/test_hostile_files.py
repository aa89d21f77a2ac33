"""Files that other people made: each ends in one line, at once, in little memory, and executes nothing.

Time and memory are measured in a process for each case, which is forked from one that has imported the package.
"""

import hashlib
import json
import os
import subprocess
import textwrap
import zlib

import netCDF4
import numpy as np
import pytest
from forked import forking

from evogt_study.errors import DamagedResultError
from evogt_study.results import index
from evogt_study.results.dataset import SCHEMA_VERSION
from evogt_study.schema.records import RunRecords, Stack
from evogt_study.storage.arrays import LARGE_BYTES, Packed, checksum

MAX_SECONDS, MAX_MEGABYTES = 2.0, 200.0
HOSTILE = "open('EXECUTED', 'w')\n"
PROBLEM = """
[problem]
dimension = {dimension}
exact = {formula}
{domain}
[axes]
seed = [0]
[constants]
dictionary = "transnet"
N = 12
N1 = 24
gamma = 2
quadrature = 40
validation = 60
final_time = 0.1
dt = 0.01
"""


def study(text, method='method = "method.py:f"\n', name='name = "own"\n', axes="[axes]\nseed = [0]\n"):
    """A study file; the function in its Python file does nothing."""

    def make(folder):
        (folder / "method.py").write_text("def f(seed, a=0):\n    return float(seed)\n")
        (folder / "own.toml").write_bytes(text.encode() if isinstance(text, str) else text)

    text = name + method + text + axes if isinstance(text, str) else text
    return make, ("run", "own.toml", "-q", "--workers", "1", "-o", "own.nc")


def formula(text):
    return study(PROBLEM.format(dimension=1, formula=json.dumps(text), domain=""), "", axes="")


def domain(stated, *files, dimension=2, exact="exp(-t)*sin(pi*x)*sin(pi*y)*x"):
    text = PROBLEM.format(dimension=dimension, formula=json.dumps(exact), domain=f"domain = {{ {stated} }}")
    make, command = study(text, "", axes="")
    return lambda folder: [make(folder), *(each(folder) for each in files)], command


def method(reference, source="", cmd="cmd = ['touch EXECUTED']\n"):
    make, command = study("", f'method = "{reference}"\n', axes=f"[axes]\n{cmd}")

    def with_source(folder):
        make(folder)
        if source:
            (folder / "method.py").write_text(textwrap.dedent(source))

    return with_source, command


def pipe(name):
    return lambda folder: os.mkfifo(made(folder / name))


def zero(name, target="/dev/zero"):
    return lambda folder: os.symlink(target, made(folder / name))


def sparse(name, size=2**40):
    def make(folder):
        with made(folder / name).open("wb") as file:
            file.truncate(size)

    return make


def content(name, data):
    return lambda folder: made(folder / name).write_bytes(data.encode() if isinstance(data, str) else data)


def made(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return path


def beside(*files, text="", **options):
    """A study with other files."""
    make, command = study(text, **options)
    return lambda folder: [make(folder), *(each(folder) for each in files)], command


def reading(*files, command=("status", "own.nc")):
    return lambda folder: [each(folder) for each in files], command


def result(**attributes):
    """A small result with these attributes."""

    def make(folder):
        with netCDF4.Dataset(made(folder / "own.nc"), "w") as file:
            known = {"study": "", "id": "own", "result_schema": SCHEMA_VERSION, "title": "own"}
            file.setncatts(known | attributes)
            file.createDimension("seed", 2)
            kinds = {"run_status": "i1", "run_attempts": "i4", "run_seconds": "f8", "run_software": "i4"}
            for name, kind in (kinds | {"run_message": str, "run_key": str}).items():
                file.createVariable(name, kind, ("seed",))
            file["run_software"].software_sets = attributes.get("software_sets", "[{}]")

    return make


def write_index(path, change):
    """Add an index with a correct checksum to a file: of two runs with a small and a large array, and with a change."""
    ones, phase = np.ones(2), "main" if path.suffix == ".nc" else ""
    stacks = [
        Stack(name, ("k",), np.arange(2), Packed.of(np.ones((2, size))))
        for name, size in (("v", 3), ("w", LARGE_BYTES))
    ]
    records = RunRecords(("a", "b"), ones.astype("i1"), ("", ""), ones, ones.astype("i4"), ("{}", "{}"), tuple(stacks))
    with path.open("ab") as file:
        for stack in stacks:
            index._append_pieces(file, file.tell(), stack.values, index.File(path))
        begin = file.tell()
        known = index.describe_records(records)
        content = change(known, *(dict(zip(PACKED, each["values"], strict=True)) for each in known["stacks"]))
        if content is None:
            tree = {"phases": {phase: known}, "axes": {}, "places": [], "plan": "", "about": ""}
            content = index.encode(tree)
        file.write(content + index.END.pack(begin, len(content), bytes(16), checksum(content, bytes(16)), index.MAGIC))


PACKED = ("forms", "form", "shapes", "pieces", "limits")


def put(array, value, field=None):
    (array if field is None else array[field])[...] = value


def raw(text, *sizes, count=None):
    """An index with this JSON text."""
    head = np.array([len(text), len(sizes) if count is None else count, *sizes], "<u8").tobytes()
    return zlib.compress(head + text.encode() + bytes(100))


def bomb(size=2**28):
    packer = zlib.compressobj()
    return b"".join([*(packer.compress(bytes(2**20)) for _ in range(size // 2**20)), packer.flush()])


INDICES = {
    "a bomb": lambda known, v, w: bomb(),
    "a bomb of lists": lambda known, v, w: zlib.compress(b"\0" * 16 + b"[],[]," * 2**24),
    "no stream": lambda known, v, w: b"\xff" * 1000,
    "nested lists": lambda known, v, w: raw("[" * 100_000),
    "more arrays than bytes": lambda known, v, w: raw("[]", count=2**60),
    "an array longer than the file": lambda known, v, w: raw('{"array": "<f8", "shape": [1000000000000]}', 8),
    "an array of objects": lambda known, v, w: raw('{"array": "|O", "shape": [1]}', 8),
    "an array of large items": lambda known, v, w: raw('{"array": "V2147483647", "shape": [0, 1000000000]}', 0),
    "an array of no type": lambda known, v, w: raw('{"array": "import os", "shape": [1]}', 8),
    "a list": lambda known, v, w: raw("[]"),
    "more keys than runs": lambda known, v, w: known.update(keys=np.array(["a"] * 100, "S1")),
    "a status that does not exist": lambda known, v, w: known["status"].fill(100),
    "a row without a run": lambda known, v, w: known["stacks"][0].update(rows=np.array([0, 10**9])),
    "a row twice": lambda known, v, w: known["stacks"][0].update(rows=np.array([1, 1])),
    "places outside of the file": lambda known, v, w: put(v["pieces"], 10**15, "offset"),
    "places before the file": lambda known, v, w: put(v["pieces"], -1, "offset"),
    "pieces longer than the file": lambda known, v, w: put(v["pieces"], 2**62, "size"),
    "pieces of a negative size": lambda known, v, w: put(v["pieces"], -5, "size"),
    "pieces of another size": lambda known, v, w: put(v["pieces"], 5, "size"),
    "pieces of another file": lambda known, v, w: put(v["pieces"], 7, "file"),
    "a row of no chunk": lambda known, v, w: put(w["pieces"], 10**9, "row"),
    "an unknown kind of piece": lambda known, v, w: put(v["pieces"], -100, "row"),
    "a form that does not exist": lambda known, v, w: put(v["form"], 99),
    "a huge shape": lambda known, v, w: put(v["shapes"], 10**9),
    "a shape of more chunks": lambda known, v, w: put(w["shapes"], 10**15),
    "a negative shape": lambda known, v, w: put(v["shapes"], -1),
    "a huge chunk": lambda known, v, w: w["forms"][0].__setitem__(2, [10**12]),
    "a chunk of nothing": lambda known, v, w: w["forms"][0].__setitem__(2, [0]),
    "a chunk of three dimensions": lambda known, v, w: w["forms"][0].__setitem__(2, [1, 1, 1]),
    "a form of objects": lambda known, v, w: v["forms"][0].__setitem__(0, "|O"),
    "a form of wide strings": lambda known, v, w: v["forms"][0].__setitem__(1, "<U1000000000"),
}  # fmt: skip
"""Changes of an index, by what it then says; overlapping pieces are no mistake, since runs share them."""


def sealed(change):
    """A small result with a hostile index."""

    def make(folder):
        result()(folder)
        write_index(folder / "own.nc", change)

    return make


@pytest.mark.parametrize("name", INDICES)
def test_a_hostile_index_is_refused(tmp_path, name):
    write_index(tmp_path / "a.shard", INDICES[name])
    with pytest.raises(DamagedResultError, match="its index cannot be read"):
        index.read_index(tmp_path / "a.shard")


def test_runs_may_share_pieces(tmp_path):
    write_index(tmp_path / "a.shard", lambda known, v, w: put(v["pieces"], v["pieces"][0, 0]))
    (found,) = index.read_index(tmp_path / "a.shard").phases.values()
    assert np.asarray(found.stacks[0].values).tolist() == [[1.0, 1.0, 1.0]] * 2


def bag(*changes, **files):
    """A bag with correct manifests, changed afterwards."""

    def make(folder):
        payload = {"data/results/own.nc": b"no result", **{name: data.encode() for name, data in files.items()}}
        tags = {"bagit.txt": b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n", "bag-info.txt": b"A: b\n"}

        def listing(each):
            return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in each.items()).encode()

        tags["manifest-sha256.txt"] = listing(payload)
        for name, data in {**payload, **tags, "tagmanifest-sha256.txt": listing(tags)}.items():
            content(f"bag/{name}", data)(folder)
        for change in changes:
            change(folder)

    return make, ("verify", "bag")


def append(name, data):
    def make(folder):
        with (folder / name).open("ab") as file:
            file.write(data if isinstance(data, bytes) else data.encode())

    return make


def linked_out(folder):
    (folder / "outside").mkdir()
    (folder / "bag/data/results").rename(folder / "outside/results")
    (folder / "bag/data/results").symlink_to(folder / "outside/results")


def deep(folder):
    """More folders than a path may have characters."""
    here = os.open(folder / "bag/data", os.O_RDONLY)
    for _ in range(600):
        os.mkdir("deeper", dir_fd=here)
        here, before = os.open("deeper", os.O_RDONLY, dir_fd=here), here
        os.close(before)
    os.close(here)


DEEP = 100_000
NAMES = {"a line end": "a\nb", "an escape": "a\x1b[2Jb", "a folder": "../up", "a null": "a\0b", "too long": "a" * 5000}
STANDARD = (
    "subprocess:getoutput", "subprocess:Popen", "os:system", "posix:system", "os:popen", "builtins:eval",
    "builtins:exec", "importlib:import_module", "runpy:run_path", "code:interact", "pty:spawn", "ctypes:CDLL",
    "timeit:timeit", "os.path:os.system", "dask.config:os.system", "webbrowser:open", "asyncio.subprocess:Process",
    "evogt_study.text:click.launch.__globals__", "evogt_study.storage.atomic:os.system", "_posixsubprocess:fork_exec",
)  # fmt: skip
FORMULAS = {
    "90 nested sines": "sin(" * 90 + "x" + ")" * 90, "4,000 brackets": "(" * 4000, "10 MB": "x+" * 5_000_000,
    "a tower": "9**9**9**9", "an import": "__import__('os').system('touch EXECUTED')", "a dot": "x.__class__",
    "a lambda": "(lambda: x)()", "a comprehension": "[x for x in y]", "a null": "x\0", "an escape": "x\x1b",
    "a nested fraction": "1/(2+" * 90 + "x" + ")" * 90, "a huge number": "1" * 3000, "no number": "nan",
    "infinity": "1e999", "wide letters": "\uff58 + 1", "a string": "'x'", "a walrus": "(y := x)", "a star": "sin(*x)",
    "a product": "*".join("x" * 300),
}  # fmt: skip
TABLE = '[[table]]\nname = "row"\nfile = "table.csv"\n'
RESULT_COMMANDS = {
    "status": ("status", "own.nc"), "verify": ("verify", "own.nc"), "summary": ("summary", "own.nc"),
    "export": ("export", "own.nc", "-o", "t.csv"), "report": ("report", "own.nc"), "try": ("try", "own.nc"),
    "merge": ("merge", "own.nc", "own.nc", "-o", "m.nc"),
    "concat": ("merge", "--along", "x", "a=own.nc", "b=own.nc", "-o", "c.nc"),
    "publish": ("publish", "own.nc", "-o", "folder"),
}  # fmt: skip
JSON = '{"file": "own.toml", "text": "", "study_code": ""}'
CASES = {
    # studies
    "study: a pipe": reading(pipe("own.toml"), command=("run", "own.toml")),
    "study: endless": reading(zero("own.toml"), command=("run", "own.toml")),
    "study: a folder": reading(lambda folder: (folder / "own.toml").mkdir(), command=("run", "own.toml")),
    "study: a circle": reading(zero("own.toml", "own.toml"), command=("run", "-n", "own.toml")),
    "study: 1 TB": reading(sparse("own.toml"), command=("run", "-n", "own.toml")),
    "study: status of a pipe": reading(pipe("own.toml"), command=("status", "own.toml")),
    "study: submit of a pipe": reading(pipe("own.toml"), command=("submit", "own.toml", "--tasks", "2", "--print")),
    "study: merge with a pipe": reading(
        pipe("own.toml"), result(), command=("merge", "own.nc", "own.nc", "--study", "own.toml", "-o", "m.nc")
    ),
    "study: no UTF-8": study(b"name = '\xff\xfe'"),
    "study: a null": study("a = '\0'\n"),
    "study: nested lists": study("a = " + "[" * DEEP + "\n"),
    "study: nested tables": study("a = " + "{a=" * DEEP + "\n"),
    "study: dotted keys": study(".".join("a" * 20_000) + " = 1\n"),
    "study: a long integer": study(f"a = {'1' * DEEP}\n"),
    "study: too many seeds": study("", axes="[axes]\nseed = { count = 1_000_000_000_000 }\n"),
    "study: too many values": study("", axes="[axes]\na = { from = 0, to = 1, count = 1_000_000_000 }\n"),
    "study: a small step": study("", axes="[axes]\na = { from = 0, to = 1, step = 1e-300 }\n"),
    "study: step nan": study("", axes="[axes]\na = { from = 0, to = 1, step = nan }\n"),
    "study: from nan": study("", axes="[axes]\na = { from = nan, to = 1, count = 3 }\n"),
    "study: count nan": study("", axes="[axes]\na = { from = 0, to = 1, count = nan }\n"),
    "study: a large sample": study(
        "", axes='[[sample]]\nname = "s"\nrule = "random"\ncount = 1_000_000_000_000\na = { from = 0, to = 1 }\n'
    ),
    "study: a large product": study(
        "", axes="[axes]\nseed = { count = 10_000 }\na = { from = 1, to = 9999, step = 1 }\n"
    ),
    **{f"study: the name has {key}": study("", name=f"name = {json.dumps(text)}\n") for key, text in NAMES.items()},
    **{f"method: {each}": method(each) for each in STANDARD},
    "method: a standard function by another name": method("method.py:run", "from os import system as run\n"),
    "method: a partial": method(
        "method.py:run", "import functools, os\nrun = functools.partial(os.system, 'touch EXECUTED')\n", "a = [1]\n"
    ),
    "method: a bound method": method("method.py:run", "import code\nrun = code.InteractiveInterpreter().runcode\n"),
    "method: a pipe": beside(pipe("method.py")),
    "method: endless": beside(zero("method.py")),
    "method: 1 TB": beside(sparse("method.py")),
    "method: nested": beside(content("method.py", "(" * DEEP)),
    "method: no UTF-8": beside(content("method.py", b"\xff\xfe\x00")),
    "method: nulls": beside(content("method.py", b"\0" * 1000)),
    "method: a helper that is a pipe": beside(
        content("method.py", "import helper\ndef f(seed): pass"), pipe("helper.py")
    ),
    "depends: a pipe": beside(pipe("data"), text='depends = ["data"]\n'),
    "depends: endless": beside(zero("data"), text='depends = ["data"]\n'),
    "depends: a null": beside(text='depends = ["a\\u0000"]\n'),
    "table: a pipe": beside(pipe("table.csv"), text="", axes=TABLE),
    "table: endless": beside(zero("table.csv"), text="", axes=TABLE),
    "table: 1 TB": beside(sparse("table.csv"), text="", axes=TABLE),
    "table: no UTF-8": beside(content("table.csv", b"a\n\xff\n"), text="", axes=TABLE),
    "table: an open quote": beside(content("table.csv", 'a\n"1\n2\n'), text="", axes=TABLE),
    "table: nulls": beside(content("table.csv", b"a\n\0\n"), text="", axes=TABLE),
    "table: many columns": beside(content("table.csv", "a," * 100_000 + "\n"), text="", axes=TABLE),
    "mesh: a pipe": domain('mesh = "a.msh"', pipe("a.msh")),
    "mesh: endless": domain('mesh = "a.msh"', zero("a.msh")),
    "mesh: 1 TB": domain('mesh = "a.msh"', sparse("a.msh")),
    "mesh: no mesh": domain('mesh = "a.msh"', content("a.msh", b"\xff" * 1000)),
    "mesh: of a million million nodes": domain(
        'mesh = "a.msh"',
        content("a.msh", f"$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$Nodes\n1 {10**12} 1 {10**12}\n2 1 0 {10**12}\n"),
    ),
    "mesh: nested": domain('mesh = "a.vtu"', content("a.vtu", "<a>" * DEEP)),
    "mesh: nan": domain(
        'mesh = "a.vtk"',
        content(
            "a.vtk",
            "# vtk DataFile Version 3.0\na\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 3 double\nnan 0 0 1 0 0 0 1 0\n"
            "CELLS 1 4\n3 0 1 2\nCELL_TYPES 1\n5\n",
        ),
    ),
    "domain: nan": domain("lower = [nan, 0.0], upper = [1.0, 1.0]"),
    "domain: infinity": domain("lower = [0.0, 0.0], upper = [inf, 1.0]"),
    "domain: a polygon of nan": domain("polygon = [[nan, 0.0], [1.0, 0.0], [0.0, 1.0]]"),
    **{f"formula: {key}": formula(text) for key, text in FORMULAS.items()},
    # paths
    "path: a line end into a script": beside(text="", axes="[axes]\nseed = [0]\n"),
    "path: the result is a pipe": beside(pipe("own.nc")),
    "path: the result is a device": beside(zero("own.nc", "/dev/full")),
    "path: the result is a circle": beside(zero("own.nc", "own.nc")),
    # results
    **{f"result: {key} of a pipe": reading(pipe("own.nc"), command=each) for key, each in RESULT_COMMANDS.items()},
    **{f"result: {key} of no end": reading(zero("own.nc"), command=each) for key, each in RESULT_COMMANDS.items()},
    "result: empty": reading(content("own.nc", b"")),
    "result: a signature": reading(content("own.nc", b"\x89HDF\r\n\x1a\n" + b"\xff" * 5000)),
    "result: nulls": reading(sparse("own.nc", 2**33)),
    "result: a seal of any length": reading(content("own.nc", b"\x89HDF\r\n\x1a\n" + b"\xff" * 99 + b"evogt seal 1\n")),
    **{f"index: {key}": reading(sealed(each), command=("verify", "own.nc")) for key, each in INDICES.items()},
    "index: a bomb, for a merge": reading(
        sealed(INDICES["a bomb"]), command=("merge", "own.nc", "own.nc", "-o", "m.nc")
    ),
    "result: a nested study": reading(result(study="a = " + "[" * 10_000), command=("verify", "own.nc")),
    "result: nested code": reading(
        result(study='name = "own"\nmethod = "m.py:f"\n[axes]\nseed = [0, 1]\n', study_code="[" * 10_000),
        command=("verify", "own.nc"),
    ),
    "result: nested digests": reading(result(content_digests="[" * 10_000), command=("verify", "own.nc")),
    "result: software nan": reading(result(software_sets="[NaN"), command=("verify", "own.nc")),
    "description: a pipe": reading(pipe("own.nc.shards/study.json")),
    "description: endless": reading(zero("own.nc.shards/study.json")),
    "description: 1 TB": reading(sparse("own.nc.shards/study.json")),
    "description: nested": reading(content("own.nc.shards/study.json", "[" * DEEP)),
    "description: nan": reading(content("own.nc.shards/study.json", JSON.replace('""', "NaN"))),
    "description: no UTF-8": reading(content("own.nc.shards/study.json", b"\xff")),
    "description: no study": reading(content("own.nc.shards/study.json", JSON)),
    "description: a standard function": reading(
        content("own.nc.shards/study.json", json.dumps({"file": "own.toml", "study_code": "", "text":
                'name = "own"\nmethod = "os:system"\n[axes]\ncommand = ["touch EXECUTED"]\n'}))
    ),
    # files beside a result
    "lock: a pipe": reading(pipe("own.nc.lock"), result(study="a = [["), command=("status", "own.nc")),
    "lock: a pipe, for a writer": beside(pipe("own.nc.lock")),
    "shard: a pipe": reading(
        pipe("own.nc.shards/a.shard"), content("own.nc.shards/study.json", JSON), command=("status", "own.nc")
    ),
    "progress: a pipe": reading(
        pipe("own.nc.shards/progress.json"), content("own.nc.shards/study.json", JSON), command=("status", "own.nc")
    ),
    # bags
    "bag: no result": bag(),
    "bag: the declaration is a pipe": bag(pipe("bag/bagit.txt")),
    "bag: the manifest is a pipe": bag(pipe("bag/manifest-sha256.txt")),
    "bag: the manifest is endless": bag(zero("bag/manifest-sha256.txt")),
    "bag: the manifest has 1 TB": bag(sparse("bag/manifest-sha256.txt")),
    "bag: the manifest is no UTF-8": bag(append("bag/manifest-sha256.txt", b"\xff\n")),
    "bag: the manifest is none": bag(append("bag/manifest-sha256.txt", "NaN data/x\n")),
    "bag: the tag manifest is a pipe": bag(pipe("bag/tagmanifest-sha256.txt")),
    "bag: the manifest leads out": bag(append("bag/manifest-sha256.txt", f"{'0' * 64}  data/../../secret\n")),
    "bag: the manifest lists a device": bag(append("bag/manifest-sha256.txt", f"{'0' * 64}  /dev/zero\n")),
    "bag: the manifest has a line end": bag(append("bag/manifest-sha256.txt", f"{'0' * 64}  data/a%0Ab\x1b\n")),
    "bag: a folder leads out": bag(linked_out),
    "bag: the payload is a link out": bag(
        lambda folder: (folder / "bag/data").rename(folder / "data"), zero("bag/data", "../data")
    ),
    "bag: the result is a pipe": bag(pipe("bag/data/results/own.nc")),
    "bag: the result is endless": bag(zero("bag/data/results/own.nc")),
    "bag: the info is a pipe": bag(pipe("bag/bag-info.txt")),
    "bag: a link that is not listed": bag(zero("bag/data/more")),
    "bag: a file that is not listed": bag(content("bag/data/more.py", HOSTILE)),
    "bag: deep folders": bag(deep),
    "bag: no folder": (lambda folder: None, ("verify", "none")),
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with forking(tmp_path_factory.mktemp("said")) as call:
        yield call


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_hostile_file_ends_in_one_line(server, tmp_path, name):
    make, command = CASES[name]
    make(tmp_path)
    if name == "path: a line end into a script":
        command = ("submit", "own.toml", "--tasks", "2", "--print", "-o", "a\ntouch EXECUTED\n.nc")
    code, seconds, megabytes, lines, _ = server(tmp_path, *command)
    assert code in (1, 2), lines
    # `status` first says whether a process computes the result; `verify` has a line for each mistake
    assert len(lines) == 1 or command[0] == "verify" or (command[0] == "status" and "not running" in lines[0])
    assert all(line.isprintable() for line in lines)
    assert not any("Traceback" in line for line in lines)
    assert (seconds < MAX_SECONDS, megabytes < MAX_MEGABYTES) == (True, True), (seconds, megabytes)
    assert not (tmp_path / "EXECUTED").exists()
    subprocess.run(["rm", "-rf", tmp_path / "bag"], check=True)  # pytest cannot remove folders that are so deep
    written = {"t.csv", "m.nc", "c.nc", "folder", "own.html"} | ({"own.nc.lock"} if "lock" not in name else set())
    assert not written & {each.name for each in tmp_path.iterdir()}
