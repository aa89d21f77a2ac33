"""Arrays and words out of memory: they hold what is put in, leave nothing behind, and a full disk is told."""

import resource
from contextlib import contextmanager

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evogt_study.errors import ResultError
from evogt_study.storage import out_of_core as scratch_module
from evogt_study.storage.out_of_core import Words, filled, is_mapped, release

MEBIBYTE = 2**20


@pytest.mark.parametrize(
    ("dtype", "fill"), [("f8", np.nan), ("i4", -1), ("S20", b""), ("?", False), ("u4", 7), ("f8", 0.5)], ids=str
)
def test_a_large_array_is_a_file_without_a_name(tmp_path, dtype, fill):
    values = filled((700, 2_001), dtype, fill, tmp_path / "r.nc")
    assert is_mapped(values)
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(values, np.full((700, 2_001), fill, dtype=dtype))
    assert values.dtype == np.dtype(dtype)


def test_small_arrays_and_those_without_a_place_are_in_memory(tmp_path):
    assert not is_mapped(filled((1000,), "f8", 0, tmp_path / "r.nc"))
    assert not is_mapped(filled((MEBIBYTE,), "f8", 0, None))
    assert filled((0,), "f8", 0, tmp_path / "r.nc").shape == (0,)


def test_views_are_known_to_be_mapped(tmp_path):
    values = filled((MEBIBYTE,), "f8", 0, tmp_path / "r.nc")
    assert is_mapped(values.reshape(1024, 1024)[3:, ::2])
    assert not is_mapped(values + 1)


def test_what_is_released_keeps_its_values(tmp_path):
    values = filled((4 * MEBIBYTE,), "f8", 0, tmp_path / "r.nc")
    before = psutil.Process().memory_info().rss
    values[:] = np.arange(len(values))
    assert psutil.Process().memory_info().rss - before > 24 * MEBIBYTE
    release(values.reshape(2, -1), np.zeros(3))
    assert psutil.Process().memory_info().rss - before < 12 * MEBIBYTE
    np.testing.assert_array_equal(values[:: 2**18], np.arange(0, len(values), 2**18))


@contextmanager
def no_file_larger_than(size):
    """As full as a disk can be without one of one's own."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_told_when_the_array_is_made_and_not_when_it_is_used(tmp_path):
    wanted = r"^cannot write beside .*r\.nc what is held of its runs meanwhile: File too large$"
    with no_file_larger_than(MEBIBYTE), pytest.raises(ResultError, match=wanted):
        filled((MEBIBYTE,), "f8", 0, tmp_path / "r.nc")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_of_words_too(tmp_path):
    words = Words(tmp_path / "r.nc")
    with no_file_larger_than(MEBIBYTE), pytest.raises(ResultError, match="File too large"):
        words.numbers([f"{number}" * 100_000 for number in range(100)])


@pytest.mark.parametrize("on_disk", [True, False])
@settings(derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(st.text(st.characters(codec=None), max_size=9) | st.just("x" * 99), max_size=9)))
def test_words_are_read_as_they_were(tmp_path, monkeypatch, on_disk, batches):
    monkeypatch.setattr(scratch_module, "IN_MEMORY", 40)
    monkeypatch.setattr(scratch_module, "REMEMBERED", 3)
    words = Words(tmp_path / "r.nc" if on_disk else None)
    numbers = [words.numbers(batch) for batch in batches]
    for batch, found in zip(batches, numbers, strict=True):
        assert words.words(found).tolist() == batch
        assert [number == 0 for number in found] == [word == "" for word in batch]
    assert list(tmp_path.iterdir()) == []


def test_words_in_the_shape_of_their_numbers(tmp_path):
    words = Words(tmp_path / "r.nc")
    numbers = words.numbers(["a", "", "b", "a"]).reshape(2, 2)
    assert words.words(numbers).tolist() == [["a", ""], ["b", "a"]]
    assert words.words(numbers[0, 0]).tolist() == "a"
    assert words.words(np.zeros((2, 0), dtype=np.int64)).shape == (2, 0)


def test_a_word_that_is_said_again_and_again_is_kept_once():
    words = Words(None)
    assert set(words.numbers(["same"] * 5).tolist()) == set(words.numbers(["same"]).tolist())
