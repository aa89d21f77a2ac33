"""Progress events, the result and `evogt status` count runs alike, also in a study that stops and is taken up again."""

import re

import numpy as np
import pytest

import evogt_study as evs
from evogt_study.errors import SweepError

AXES = "[axes]\nseed = { start = 0, count = 12 }\n"
FAILS = "if seed in (3, 7, 8):\n        raise ValueError('no luck')"
SHAPE = "if seed in (3, 7, 8):\n        return {'v': ('k', [1.0])}"
# what a run does, how many may fail, and the runs that are ok in the end and not ok, None for a study that stops
STUDIES = {
    "all are ok": ("pass", None, (12, 0)),
    "some fail": (FAILS, None, (9, 3)),
    "some diverge": ("if seed in (3, 7, 8):\n        return {'error': float('nan')}", None, (9, 3)),
    "some have another shape": (SHAPE, None, (9, 3)),
    "too many fail": (FAILS, 1, None),
    "as many fail as may": (FAILS, 3, (9, 3)),
    "too many have another shape": (SHAPE, 1, None),
}


@pytest.fixture
def counts_of(evogt):
    """Returns (ok, not ok) of a result by its events, by the file and by `evogt status`."""

    def count(event, path):
        with evs.open(path) as data:
            status = data.run_status.values
        code, text, _ = evogt("status", path)
        assert code == 0
        line = next(line for line in text.splitlines() if " runs, " in line)
        numbers = {name: int(number) for number, name in re.findall(r"(\d+) ([a-z ]+)", line.partition(" runs, ")[2])}
        ok, not_run = (numbers.pop(each, 0) for each in ("ok", "not run"))
        assert not_run == (status == "not_run").sum()
        return [
            (event.reused + event.done - event.failed, event.failed),
            (int((status == "ok").sum()), int((~np.isin(status, ["ok", "not_run"])).sum())),
            (ok, sum(numbers.values())),
        ]

    return count


@pytest.mark.parametrize("name", STUDIES)
def test_events_file_and_status_count_alike(own_study, client, tmp_path, counts_of, name):
    body, failures, expected = STUDIES[name]
    study, path = own_study(f"def method(seed):\n    {body}\n    return {{'v': 1.0}}\n", AXES), tmp_path / "own.nc"
    options = {"client": client, "output": path, "max_failures": failures}
    events = []
    if expected is None:
        with pytest.raises(SweepError) as stopped:
            evs.run(study, listener=events.append, **options)
        first, *others = counts_of(events[-1], path)
        assert others == [first] * 2
        assert failures < first[1]
        assert f"stopped after {first[1]} failed runs" in str(stopped.value)
        options["max_failures"], expected = None, (9, 3)
    for _ in range(2):  # the second time all are there
        evs.run(study, listener=events.append, **options)
        assert counts_of(events[-1], path) == [expected] * 3
