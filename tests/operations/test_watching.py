import json
import os
import subprocess
import time

from evogt_study.operations.progress import ProgressEvent, read_running_study, with_progress_file
from evogt_study.storage.files import lock_file, progress_file
from evogt_study.storage.lease import SILENT_SECONDS, lock_result

EVENT = ProgressEvent("main", reused=10, done=2, failed=1, total=60, seconds=4.0, seconds_left=96.0)


def test_a_computation_seen_from_outside(tmp_path):
    path, heard = tmp_path / "own.nc", []
    assert read_running_study(path).describe() == "not running. Compute the rest with `evogt run`."
    progress_file(path).parent.mkdir()
    with lock_result(path):
        lock = lock_file(path).read_text()
        assert read_running_study(path).describe().endswith("; no run is finished yet")
        listener = with_progress_file(path, heard.append)
        listener(EVENT)
        listener(ProgressEvent("main", 10, 3, 1, 60, 4.1))  # too soon to be written down
        assert len(heard) == 2
        seen = read_running_study(path)
        assert (seen.runs, seen.event) == (True, EVENT)
        assert "; 12/60 runs, 10 reused, 1 failed, 0.5 runs/s, 1 min 36 s left (" in seen.describe()
    assert not read_running_study(path).runs

    ended = subprocess.Popen(["true"])
    ended.wait()
    content = json.loads(lock) | {"process": ended.pid}
    lock_file(path).write_text(json.dumps(content))  # what a killed process leaves
    assert f"not running: process {ended.pid} on " in read_running_study(path).describe()
    assert "which is gone" in read_running_study(path).describe()

    lock_file(path).write_text(json.dumps(content | {"host": "elsewhere", "machine": "another", "process": 1}))
    assert read_running_study(path).runs
    silent = time.time() - SILENT_SECONDS - 1
    os.utime(lock_file(path), (silent, silent))
    assert not read_running_study(path).runs


def test_the_event_of_another_process_is_not_this_ones_and_what_is_none_is_left(tmp_path):
    path = tmp_path / "own.nc"
    progress_file(path).parent.mkdir()
    with_progress_file(path, None)(EVENT)
    content = json.loads(progress_file(path).read_text())
    with lock_result(path):
        assert read_running_study(path).event == EVENT
        for wrong in ({"process": 1}, {"event": {}}, {"event": content["event"] | {"done": "many"}}, {"at": "then"}):
            progress_file(path).write_text(json.dumps(content | wrong))
            assert read_running_study(path).event is None
