"""Claims of parts: one holder each, taken over from those that are gone, on any file system."""

import os
import subprocess
import sys
import time

import pytest

from evogt_study.storage import lease as writer_lock
from evogt_study.storage.lease import NAMED_SECONDS, SILENT_SECONDS, WorkIsGoneError, claims_in, living, remove_claims

RACE = """
import sys
from pathlib import Path
from evogt_study.storage.lease import claims_in
claims = claims_in(Path(sys.argv[1]))
sys.stdin.readline()
print(*[part for part in range(200) if claims.take(part)])
"""


def lost(claims):
    return claims.lost(claims.seen(), range(10))


def test_of_several_processes_one_gets_each_part_and_those_of_an_ended_one_are_lost(tmp_path):
    racing = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(tmp_path / "claims")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in racing:
        process.stdin.write("go\n")
        process.stdin.flush()
    taken = [int(part) for process in racing for part in process.communicate()[0].split()]
    assert sorted(taken) == list(range(200))
    claims = claims_in(tmp_path / "claims")
    assert sorted(lost(claims)) == list(range(10))
    assert living(tmp_path) == 0
    assert not claims.take(3)
    assert claims.take(3, 1)
    assert not claims_in(tmp_path / "claims").take(3, 1)
    assert 3 not in lost(claims_in(tmp_path / "claims"))
    assert living(tmp_path) == 1


def test_a_part_of_another_machine_is_lost_once_it_is_silent(tmp_path, monkeypatch):
    claims = claims_in(tmp_path / "claims")
    monkeypatch.setattr(writer_lock, "_machine", lambda: "elsewhere")
    assert claims.take(0)
    monkeypatch.undo()
    other = claims_in(tmp_path / "claims")
    assert lost(other) == []
    silent = time.time() - SILENT_SECONDS - 1
    os.utime(tmp_path / "claims" / "0.0", (silent, silent))
    assert lost(other) == [0]


def test_a_part_whose_process_was_killed_before_it_signed_is_lost_soon(tmp_path):
    claims = claims_in(tmp_path / "claims")
    unsigned = tmp_path / "claims" / "0.0"
    unsigned.touch()
    assert lost(claims) == []
    cut_short = time.time() - NAMED_SECONDS - 1
    os.utime(unsigned, (cut_short, cut_short))
    assert lost(claims) == [0]


def test_what_is_released_is_lost_at_once_and_what_is_done_never(tmp_path):
    claims = claims_in(tmp_path / "claims")
    with claims.kept_alive():
        assert claims.take(0)
        assert claims.take(1)
        claims.finish(0)
    other = claims_in(tmp_path / "claims")
    assert lost(other) == [1]
    assert other.seen().done == {0}
    remove_claims(tmp_path / "claims")
    for look in (other.seen, lambda: other.take(5)):
        with pytest.raises(WorkIsGoneError):
            look()
