"""Results of other people: commands that only read run nothing of them, show them as they are, and read no more."""

import json
import textwrap

import pytest

from evogt_study.methods import registry as methods
from evogt_study.methods import user_code
from evogt_study.planning.plan import study_plan
from evogt_study.results.shards import shard_folder, write_shard
from evogt_study.results.unfinished_result import describe
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, run_batch

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
    user_code._module.cache_clear()
    methods.load_method.cache_clear()


def imported(folder):
    return (folder / "imported").exists()


def started(study, path, which):
    """What is there of a result while some of its cases are finished."""
    plan = study_plan(study)
    describe(path, study)
    write_shard(shard_folder(path), run_batch(Batch.of(plan.spec, [plan.case(index) for index in which])))


# --- nothing is run ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finished", [True, False], ids=["a result", "shards"])
def test_what_only_reads_imports_nothing(own_study, result_of, evogt, folder, finished):
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
        assert command != "status" or f"12 runs, {'12 ok' if finished else '4 not_run, 8 ok'}\n" in out


def test_a_result_is_checked_and_joined_without_its_code(own_study, result_of, evogt, folder):
    for name, seeds in (("a", "1"), ("b", "4")):
        result_of(own_study(MARKED, AXES.replace("4", seeds)), folder / f"{name}.nc")
    forget(folder)
    (folder / "method.py").rename(folder / "moved.py")
    assert evogt("merge", "a.nc", "b.nc", "-o", "c.nc") == (0, "c.nc: 12 runs, 12 ok\n", "")
    assert evogt("verify", "--sample", "0", "c.nc")[:2] == (0, "c.nc (study): 12 runs, 12 ok\nc.nc: all well\n")
    assert not imported(folder)
    code, out, _ = evogt("verify", "c.nc", "--code", "moved.py")
    assert (code, out.count("equal bit for bit")) == (0, 3)
    assert imported(folder)


PROBLEMS = {
    "a factory": "def problem(k, nu=0.5):\n        return evs.Statement(dimension=1, exact=FORMULA)(k=k)",
    "formulas": "problem = evs.Statement(dimension=1, exact=FORMULA)",
}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_problem_of_ones_own_is_known_by_what_it_declares(small_study, result_of, evogt, folder, kind):
    source = f'FORMULA = "exp(-t)*sin(k*pi*x)"\n    import evogt_study as evs\n    {PROBLEMS[kind]}\n'
    (folder / "method.py").write_text(textwrap.dedent(MARKED + "    " + source))
    head, _, rest = small_study.partition("[problem]")
    text = head + 'problem = "method.py:problem"\n' + rest[rest.index("[axes]") :]
    (folder / "small.toml").write_text(text.replace("start = 0, count = 3", "count = 1"))
    study = Study.from_file("small.toml")
    result_of(study, folder / "small.nc")
    started(study, folder / "later.nc", [0])
    forget(folder)
    assert evogt("verify", "--sample", "0", "small.nc")[0] == 0
    assert "later.nc (study): 4 runs, 3 not_run, 1 ok\n" in evogt("status", "later.nc")[1]
    assert not imported(folder)
    assert evogt("verify", "--sample", "1", "small.nc")[0] == 0


@pytest.mark.parametrize("command", [("verify",), ("replay", "--at", "level=1,seed=0")], ids=lambda each: each[0])
def test_code_runs_that_computed_the_result_or_is_named(own_study, result_of, evogt, folder, command):
    result_of(own_study(MARKED, AXES), folder / "own.nc")
    name, *options = command

    def refused(said):
        forget(folder)
        code, _, err = evogt(name, "own.nc", *options)
        assert (code, said in err, err.count("--code FILE.py")) == (2, True, 1), err
        assert not imported(folder)

    original = (folder / "method.py").read_text()
    (folder / "method.py").write_text(original.replace("+ seed", "- seed"))
    refused("method.py must be the file that computed own.nc, got other content")
    (folder / "method.py").write_text(original + "\n('")
    refused("got other content")
    (folder / "method.py").unlink()
    refused("must name a readable Python file")
    (folder.parent / "elsewhere.py").write_text(original)
    (folder / "method.py").symlink_to(folder.parent / "elsewhere.py")
    refused("must lie beside its study in")
    assert evogt(name, "own.nc", *options, "--code", folder.parent / "elsewhere.py")[0] == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"name": "other", "content": "0"}',
        '{"name": "method", "content": "0", "parameters": [["a b", 0, 0]]}',
    ],
)
def test_a_declaration_that_is_none(own_study, evogt, folder, text):
    describe(folder / "own.nc", own_study(MARKED, AXES))
    description = shard_folder(folder / "own.nc") / "study.json"
    description.write_text(json.dumps({**json.loads(description.read_text()), "study_code": text}))
    forget(folder)
    code, _, err = evogt("status", "own.nc")
    assert (code, "what `method.py:method` declares must be recorded" in err, len(err.splitlines())) == (2, True, 1)
    assert not imported(folder)
