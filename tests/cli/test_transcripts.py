"""The command line as its user sees it: `transcripts.txt` has commands, their exit codes and all that they print.

A line with ``$`` is a command, ``! `` begins a line of standard error, and ``[2]`` is an exit code other than 0.  Other
lines are standard output.  In an expected line, ``...`` is any text.  A heading has the subject of a section and the
files in its folder.  After a wanted change, ``EVOGT_WRITE=1 pytest -n 0 tests/cli/test_transcripts.py`` writes lines
again, except those with ``...``; read the difference.
"""

import os
import re
import shlex
import subprocess
from itertools import zip_longest
from pathlib import Path

import pytest
from conftest import write_computed_result

from evogt_study.results.finished import shard_folder, write_description
from evogt_study.results.index import write_shard
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here

FILE = Path(__file__).with_name("transcripts.txt")
SECTIONS = dict(re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", FILE.read_text(encoding="utf-8"), re.MULTILINE))
FUNCTION = """
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


def add_result(folder):
    """`own.nc`: a result of twelve runs.  Two of them failed."""
    write_computed_result(Study.from_file(folder / "own.toml"), folder / "own.nc")


def add_half(folder):
    """`half.nc.shards`: half of the runs, as a killed command leaves them."""
    study = Study.from_file(folder / "own.toml")
    plan = plan_study(study)[-1]
    write_description(folder / "half.nc", study)
    records = compute_here(Batch.from_cases(plan.spec, list(plan.cases())[6:]))
    write_shard(shard_folder(folder / "half.nc"), records)


FILES = {"own.nc": add_result, "half.nc.shards": add_half}


def list_files(folder):
    """Every file and folder below, with the content of files, without Python's caches of imported files."""
    paths = (path for path in sorted(folder.rglob("*")) if "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


def call(evogt, line, folder):
    """Lines that a command prints, with what differs from run to run left out."""
    program, *arguments = shlex.split(line)
    if program != "evogt":
        return subprocess.run(
            line, shell=True, check=True, cwd=folder, capture_output=True, text=True
        ).stdout.splitlines()
    before = list_files(folder)
    code, out, err = evogt(*arguments)
    if code == 2:  # a mistake costs one line and leaves nothing
        assert (out, list_files(folder)) == ("", before)
        assert len(err.splitlines()) == 1 or err.startswith("Usage: ")
    lines = [*out.splitlines(), *(f"! {each}".rstrip() for each in err.splitlines())]
    lines = [
        each for each in lines if not re.fullmatch(r"! +[~^]+", each)
    ]  # not every Python underlines in a traceback
    return [each.replace(str(folder), "FOLDER") for each in lines] + [f"[{code}]"] * (code != 0)


def matches(expected, found):
    return found is not None and re.fullmatch(re.escape(expected or "").replace(re.escape("..."), ".*"), found)


@pytest.mark.parametrize("title", SECTIONS)
def test_commands_print_the_lines_of_the_transcript(evogt, tmp_path, monkeypatch, no_workers, title):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "own.py").write_text(FUNCTION)
    (tmp_path / "own.toml").write_text(STUDY)
    for name in set(FILES) & set(re.findall(r"[\w.]+\w", title.partition("(")[2])):
        FILES[name](tmp_path)
    parts, written = re.split(r"^\$ (.*)\n", SECTIONS[title], flags=re.MULTILINE), []
    for command, text in zip(parts[1::2], parts[2::2], strict=True):
        expected, found = text.rstrip("\n").split("\n") if text.strip() else [], call(evogt, command, tmp_path)
        pairs = list(zip_longest(expected, found))
        written += [f"$ {command}", *(old if old and "..." in old and matches(old, new) else new for old, new in pairs)]
        if "EVOGT_WRITE" not in os.environ:
            assert all(matches(*pair) for pair in pairs), (command, expected, found)
    if "EVOGT_WRITE" in os.environ:
        section = "\n".join([f"## {title}", *(each for each in written if each is not None), "", ""])
        whole = FILE.read_text(encoding="utf-8")
        FILE.write_text(whole.replace(f"## {title}\n{SECTIONS[title]}", section), encoding="utf-8")
