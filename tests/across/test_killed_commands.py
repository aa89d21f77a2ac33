"""Commands that write are killed at any system call, or find the disk full, read-only or broken, and then run again.

`python tests/across/test_killed_commands.py` prints the table of docs/guarantees.md.
"""

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from errno import EIO, ENOSPC, EROFS
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from forked import forking

from evogt_study.results.finished import ShardFolder

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="a C compiler counts the calls")
NEVER = 10**9
STUDY = """name = "own"
method = "method.py:f"
[axes]
seed = {{ start = {start}, count = {count} }}
[publication]
license = "CC-BY-4.0"
[[publication.creators]]
name = "Doe, Jane"
"""
STUDIES = {"own": (0, 6), "a": (0, 3), "b": (3, 3), "changed": (2, 6)}
RUN = ("-q", "--workers", "1", "-o")
COMMANDS = {
    "run": ("run", "own.toml", *RUN, "new.nc"),
    "run of a changed study": ("run", "changed.toml", *RUN, "own.nc"),
    "merge": ("merge", "a.nc", "b.nc", "--study", "own.toml", "-o", "m.nc"),
    "concat": ("merge", "--along", "problem", "x=a.nc", "y=b.nc", "-o", "c.nc"),
    "publish": ("publish", "a.nc", "-o", "new/deposit"),
    "store prune": ("store", "prune", "kept.nc"),
    "export": ("export", "own.nc", "-o", "t.csv"),
}
FAULTS = {"full": (ENOSPC, NEVER), "read-only": (EROFS, NEVER), "EIO": (EIO, 0)}
"""Errors of the disk, and the last call that has them: 0 stands for the first one alone."""


class Trials:
    """A folder with studies and results, from which each trial has a copy, and how each command ends undisturbed."""

    def __init__(self, call, folder):
        self.call, self.folder, self.template = call, folder, folder / "template"
        self.template.mkdir()
        (self.template / "method.py").write_text("def f(seed):\n    return {'error': seed / 3, 'note': 'x' * seed}\n")
        for name, (start, count) in STUDIES.items():
            (self.template / f"{name}.toml").write_text(STUDY.format(start=start, count=count))
        steps = [("run", f"{name}.toml", *RUN, f"{name}.nc") for name in ("own", "a", "b")]
        for step in (*steps, ("run", "own.toml", *RUN, "kept.nc"), ("run", "changed.toml", *RUN, "kept.nc")):
            ended = call(self.template, *step)
            assert ended.code == 0, ended.lines
        self.ends = {}

    def end(self, name):
        """Calls of an undisturbed command, and the files that it leaves."""
        if name not in self.ends:
            with self.copy() as place:
                ended = self.call(Path(place), *COMMANDS[name], faults=[NEVER, 0, 0])
                assert ended.code == 0, ended.lines
                self.ends[name] = ended.calls, state(place)
        return self.ends[name]

    def copy(self):
        made = tempfile.TemporaryDirectory(dir=self.folder)
        shutil.copytree(self.template, made.name, dirs_exist_ok=True)
        return made

    def calls(self, name, number):
        """Numbers of that many calls of a command, from the first to the last."""
        count = self.end(name)[0]
        return sorted({1 + round(step * (count - 1) / max(1, number - 1)) for step in range(number)})

    def many_calls(self, name):
        """All calls of a command that has at most 20, and 14 of any other."""
        count = self.end(name)[0]
        return self.calls(name, count if count <= 20 else 14)

    def disturb(self, name, at, error=0, last=0):
        """Run a command that is disturbed, and run it again; return how the first ended."""
        with self.copy() as place:
            ended = self.call(Path(place), *COMMANDS[name], faults=[at, error, last or at])
            again = self.call(Path(place), *COMMANDS[name])
            assert again.code == 0, (ended, again)
            assert state(place) == self.end(name)[1], (ended, again)
            return ended


def state(folder):
    """The content of a folder: the runs of each result and store, and the other files with their content."""
    found = {}
    for path in (path for path in Path(folder).rglob("*") if path.is_file()):
        name, store = str(path.relative_to(folder)), path.parent if path.parent.suffix == ".store" else None
        if store is not None and path.suffix == ".shard":
            found[store.name] = sorted(ShardFolder(store).keys().astype(str).tolist())
        elif path.suffix == ".nc":
            with xr.open_dataset(path, decode_times=False) as data:
                order = np.argsort(data.run_key.values.ravel())
                columns = {each: data[each].values.ravel()[order].tolist() for each in ("run_key", "error", "note")}
                found[name] = repr(columns)
        else:  # times are in the files of a deposit
            found[name] = b"" if "deposit" in name else path.read_bytes()
    return found


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    with trials_in(folder) as made:
        yield made


class trials_in:  # noqa: N801  # a context manager
    def __init__(self, folder):
        (folder / "message").mkdir()
        source, library = Path(__file__).with_name("faults.c"), folder / "faults.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self.server, self.folder = forking(folder / "message", library), folder

    def __enter__(self):
        return Trials(self.server.__enter__(), self.folder)

    def __exit__(self, *error):
        self.server.__exit__(*error)


SOME = [name if name == "run" else pytest.param(name, marks=pytest.mark.long) for name in COMMANDS]


@pytest.mark.parametrize("name", SOME)
def test_a_killed_command_is_repeated(trials, name):
    for at in trials.calls(name, 2 if name == "run" else 3):
        assert trials.disturb(name, at).code == -9


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_the_disk_refuses_is_repeated(trials, name):
    for at, (error, last) in zip(trials.calls(name, 4)[1:], FAULTS.values(), strict=False):
        check_refused(trials.disturb(name, at, error, last))


def check_refused(ended):
    """One line and an exit code, or success if the call does not matter, such as one for the file of the progress."""
    assert ended.code in (0, 1, 2), ended
    assert len(ended.lines) == 1 or not ended.code, ended
    assert not any("Traceback" in line for line in ended.lines), ended


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_killed_at_many_calls(trials, name):
    for at in trials.many_calls(name):
        assert trials.disturb(name, at).code == -9


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_the_disk_refuses_at_many_calls(trials, name):
    for error, last in FAULTS.values():
        for at in trials.calls(name, 8):
            check_refused(trials.disturb(name, at, error, last))


def table():
    """Print the calls of each command that write, how often it was killed, and how often a disk fault stopped it."""
    print("| command | calls that write | kills | full | read-only | EIO |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, trials_in(Path(folder)) as made:
        for name in COMMANDS:
            kills = [made.disturb(name, at).code for at in made.many_calls(name)]
            ends = Counter(
                (kind, made.disturb(name, at, error, last).code == 0)
                for kind, (error, last) in FAULTS.items()
                for at in made.calls(name, 8)
            )
            faults = [f"{ends[kind, False]} of {ends[kind, False] + ends[kind, True]}" for kind in FAULTS]
            print(f"| {name} | {made.end(name)[0]} | {kills.count(-9)} | {' | '.join(faults)} |", flush=True)


if __name__ == "__main__":
    sys.exit(table())
