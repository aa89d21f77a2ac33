"""The temporary folder: killed commands leave it, and the next one removes it, but no other's."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from evogt_study.storage.lease import FOLDER_LOCK, FOLDER_PREFIX

OWN = """
import sys
from evogt_study.storage.lease import own_folder
print(own_folder(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary():
    """A temporary folder for processes, of a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def started(temporary):
    """Starts a process that has a temporary folder until it ends; the process and its folder."""
    running = []

    def start():
        command, environment = [sys.executable, "-c", OWN], os.environ | {"TMPDIR": str(temporary)}
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        running.append(process)
        return process, Path(process.stdout.readline().strip())

    yield start
    for process in running:
        with process:
            process.kill()


def test_a_folder_of_a_killed_command_is_removed_by_the_next_and_that_of_a_live_one_is_not(started, temporary):
    (killed, left), (alive, kept) = started(), started()
    (left / "listener").touch()
    (left / "evogt-12345678").mkdir()
    killed.kill()
    killed.wait()
    ended, own = started()
    assert {*temporary.iterdir()} == {kept, own}
    for process in (alive, ended):
        assert process.communicate() == ("", "")
    assert [*temporary.iterdir()] == []


def test_folders_that_are_not_ours_stay(started, temporary):
    """Of another machine, of Python alone, and what only looks like one."""
    others = {name: temporary / f"{FOLDER_PREFIX}{name}" for name in ("elsewhere", "python", "file", "link", "torn")}
    for name in ("elsewhere", "python", "torn"):
        others[name].mkdir()
    (others["elsewhere"] / FOLDER_LOCK).write_text(json.dumps({"host": "elsewhere", "process": 7}))
    (others["torn"] / FOLDER_LOCK).touch()
    others["file"].touch()
    others["link"].symlink_to(others["elsewhere"])
    process, own = started()
    assert {*temporary.iterdir()} == {own, *others.values()}
    process.communicate()
    assert {*temporary.iterdir()} == {*others.values()}
