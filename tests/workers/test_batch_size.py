"""How large batches become: worth a task, bounded in time and memory, small at the end."""

from types import SimpleNamespace

import numpy as np
import pytest

from evogt_study.schema.records import Stack
from evogt_study.workers.executor import (
    BATCH_SECONDS,
    CLIENT_SECONDS,
    MAX_BATCH_BYTES,
    MAX_BATCH_CASES,
    N_RECENT_BATCHES,
    BatchSize,
)


def measured(count, seconds=0.0, values=0):
    """What is looked at of the records of `count` runs, each of `seconds` and with `values` numbers."""
    stack = Stack("v", ("k",), np.arange(count), np.zeros((count, values)))
    return SimpleNamespace(keys=("",) * count, wall_seconds=np.full(count, seconds), stacks=(stack,))


def sizes(count, threads=2, group=1, **run):
    """The sizes of all batches of `count` equal runs, when each is measured before the next is made."""
    size, found, cases = BatchSize(count, threads, group), [], iter(range(count))
    while batch := size.take(cases):
        found.append(len(batch))
        size.add(measured(len(batch), **run))
    return found


def test_the_first_batch_is_one_run_and_the_next_ones_grow():
    found = sizes(100_000, seconds=1e-5)
    assert found[0] == 1
    assert all(later <= 8 * sum(found[:number]) for number, later in enumerate(found) if number)
    assert max(found) == MAX_BATCH_CASES


def test_batches_are_worth_a_task_and_bounded_in_time_and_memory():
    assert set(sizes(40, seconds=60.0)[1:]) == {1}
    assert max(sizes(10_000, seconds=1e-3)) == pytest.approx(1000 * BATCH_SECONDS, abs=10)
    assert len(sizes(1_000_000, seconds=1e-6)) < 300  # shards
    values = MAX_BATCH_BYTES // 8 // 10  # ten runs fill a batch
    assert max(sizes(1000, seconds=1e-4, values=values)[1:]) == 10
    assert set(sizes(30, seconds=1e-4, values=100 * values)[1:]) == {1}
    ends = np.cumsum(sizes(1200, group=3, seconds=0.01))
    assert (ends[1:] % 3 == 0).all()  # what shares its stages stays together; the first batch is one run


def test_the_last_batches_finish_together():
    """The last batches are worth no more than a share of the rest, and no less than their cost."""
    found = sizes(10_000, seconds=1e-3)
    assert found[-4:-1] == pytest.approx([50] * 3, abs=1)
    assert min(found[3:-1]) >= 49
    assert found[6:] == sorted(found[6:], reverse=True)


def test_short_runs_after_long_ones_soon_fill_their_batches():
    """Long runs come first; their average would make batches of thousands of short ones too small for ever."""
    size = BatchSize(1_000_000, 2, 1)
    for _ in range(200):
        size.add(measured(1, seconds=10.0))
    assert size.choose_count() == 1
    found = []
    for _ in range(2 * N_RECENT_BATCHES):
        found.append(size.choose_count())
        size.add(measured(found[-1], seconds=1e-3))
    assert found[0] == 1
    assert found[-1] == pytest.approx(1000 * BATCH_SECONDS, abs=10)


@pytest.mark.long
@pytest.mark.parametrize(("workers", "seconds"), [(2, 0.5), (64, 0.9), (200, 2.8), (1000, 14.0)])
def test_batches_of_many_workers_leave_the_command_half_idle(workers, seconds):
    """Each takes it `CLIENT_SECONDS`; few workers have no longer batches for it."""
    longest = max(sizes(8_000 * workers, threads=workers, seconds=0.01))
    assert 0.01 * longest == pytest.approx(seconds, rel=0.02)
    assert workers / seconds * CLIENT_SECONDS <= 0.51
