"""Files of other people: each ends in one line, at once, in little memory, and executes nothing.

`hostile.txt` has the files.  Time and memory are measured in a process for each command, which is forked from one that
has imported the package.
"""

import hashlib
import json
import os
import re
import shlex
import subprocess
import zlib
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from forked import forking

from evogt_study.errors import DamagedResultError
from evogt_study.results import index
from evogt_study.results.netcdf import SCHEMA_VERSION
from evogt_study.schema.records import RunRecords, Stack
from evogt_study.storage.arrays import LARGE_BYTES, Packed
from evogt_study.storage.files import checksum

MAX_SECONDS, MAX_MEGABYTES = 2.0, 200.0
STUDY = 'name = "own"\nmethod = "method.py:f"\n[axes]\nseed = [0]\n'
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
SHELL = """
add() { (head -n 2 own.toml; cat; tail -n +3 own.toml) > new; mv new own.toml; }
axes() { (head -n 2 $PARTS/study.toml; echo '[axes]'; cat) > own.toml; }
problem() { sed "s|FORMULA|$1|; s|DOMAIN|$2|" $PARTS/problem.toml > own.toml; }
repeat() { yes "$1" | head -n $2 | tr -d '\\n'; }
result() { cp $PARTS/own.nc "$1"; }
bag() { cp -r $PARTS/bag "$1"; }
"""
"""Functions of the lines in `hostile.txt`."""


def result(**attributes):
    """A small result with these attributes."""

    def make(folder):
        with netCDF4.Dataset(folder / "own.nc", "w") as file:
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
        Stack(name, ("k",), np.arange(2), Packed.pack(np.ones((2, size))))
        for name, size in (("v", 3), ("w", LARGE_BYTES))
    ]
    records = RunRecords(("a", "b"), ones.astype("i1"), ("", ""), ones, ones.astype("i4"), ("{}", "{}"), tuple(stacks))
    with path.open("ab") as file:
        for stack in stacks:
            index._append_pieces(file, file.tell(), stack.values, index.PieceFile(path))
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


# --- files that hostile.txt makes -------------------------------------------------------------------------------------


def write_bag(folder):
    """A bag with correct manifests."""
    payload = {"data/results/own.nc": b"no result"}
    tags = {"bagit.txt": b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n", "bag-info.txt": b"A: b\n"}

    def list_checksums(files):
        return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items()).encode()

    tags["manifest-sha256.txt"] = list_checksums(payload)
    for name, data in {**payload, **tags, "tagmanifest-sha256.txt": list_checksums(tags)}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def read_cases(text):
    """The lines of each section, once for each word of its lines with a percent sign."""
    for title, body in re.findall(r"^## (.*)\n((?:[$%].*\n)*)", text, re.MULTILINE):
        lines = body.splitlines()
        for word in " ".join(line[2:] for line in lines if line[0] == "%").split() or [""]:
            yield f"{title} {word}".strip(), [line[2:].replace("{each}", word) for line in lines if line[0] == "$"]


CASES = dict(read_cases(Path(__file__).with_name("hostile.txt").read_text(encoding="utf-8")))
FORMULAS = {
    "90 nested sines": "sin(" * 90 + "x" + ")" * 90, "4,000 brackets": "(" * 4000, "10 MB": "x+" * 5_000_000,
    "a tower": "9**9**9**9", "an import": "__import__('os').system('touch EXECUTED')", "a dot": "x.__class__",
    "a lambda": "(lambda: x)()", "a comprehension": "[x for x in y]", "a null": "x\0", "an escape": "x\x1b",
    "a nested fraction": "1/(2+" * 90 + "x" + ")" * 90, "a huge number": "1" * 3000, "no number": "nan",
    "infinity": "1e999", "wide letters": "\uff58 + 1", "a string": "'x'", "a walrus": "(y := x)", "a star": "sin(*x)",
    "a product": "*".join("x" * 300),
}  # fmt: skip
RESULTS = {
    "a nested study": result(study="a = " + "[" * 10_000),
    "nested code": result(study=STUDY.replace("[0]", "[0, 1]"), study_code="[" * 10_000),
    "nested digests": result(content_digests="[" * 10_000),
    "software nan": result(software_sets="[NaN"),
    **{f"index: {name}": sealed(change) for name, change in INDICES.items()},
}


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Files that the lines copy."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "study.toml").write_text(STUDY)
    problem = PROBLEM.format(dimension=2, formula='"FORMULA"', domain="domain = { DOMAIN }")
    (folder / "problem.toml").write_text('name = "own"\n' + problem)
    result()(folder)
    write_bag(folder / "bag")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with forking(tmp_path_factory.mktemp("printed")) as call:
        yield call


@pytest.fixture
def refused(server, tmp_path):
    """Calls a command in a folder with a study, which ends in one line."""
    (tmp_path / "method.py").write_text("def f(seed, a=0):\n    return float(seed)\n")
    (tmp_path / "own.toml").write_text(STUDY)

    def call(*command):
        code, seconds, megabytes, lines, _ = server(tmp_path, *command)
        assert code in (1, 2), (command, lines)
        # `status` first says whether a process computes the result; `verify` has a line for each mistake
        assert len(lines) == 1 or command[0] == "verify" or (command[0] == "status" and "not running" in lines[0])
        assert all(line.isprintable() and "Traceback" not in line for line in lines)
        assert (seconds < MAX_SECONDS, megabytes < MAX_MEGABYTES) == (True, True), (seconds, megabytes)
        assert not (tmp_path / "EXECUTED").exists()
        assert not {"t.csv", "m.nc", "c.nc", "folder", "own.html"} & {each.name for each in tmp_path.iterdir()}

    yield call
    subprocess.run(["rm", "-rf", tmp_path / "bag"], check=True)  # pytest cannot remove folders that are so deep


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_hostile_file_ends_in_one_line(refused, parts, tmp_path, name):
    for line in CASES[name]:
        if line.startswith("evogt "):
            refused(*(word.encode().decode("unicode_escape") for word in shlex.split(line)[1:]))
        else:
            environment = {**os.environ, "PARTS": str(parts)}
            subprocess.run(["sh", "-ec", SHELL + line], check=True, cwd=tmp_path, env=environment)


@pytest.mark.long
@pytest.mark.parametrize("name", FORMULAS)
def test_a_hostile_formula_ends_in_one_line(refused, tmp_path, name):
    problem = PROBLEM.format(dimension=1, formula=json.dumps(FORMULAS[name]), domain="")
    (tmp_path / "own.toml").write_text('name = "own"\n' + problem)
    refused("run", "own.toml", "-q", "--workers", "1", "-o", "own.nc")


@pytest.mark.long
@pytest.mark.parametrize("name", RESULTS)
def test_a_hostile_result_ends_in_one_line(refused, tmp_path, name):
    RESULTS[name](tmp_path)
    refused("verify", "own.nc")
    if name == "index: a bomb":
        refused("merge", "own.nc", "own.nc", "-o", "m.nc")
